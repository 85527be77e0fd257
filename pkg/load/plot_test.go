package load

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/loadtest"
)

// elements returns how often each element occurs in a well-formed drawing.
func elements(t *testing.T, text string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return counts
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok {
			counts[e.Name.Local]++
		}
	}
}

// svg cuts the drawing out of a page.
func svg(page string) string { return page[strings.Index(page, "<svg"):strings.Index(page, "</body>")] }

func TestPlots(t *testing.T) {
	s := start(t, loadtest.Options{Fault: func(n int) loadtest.Fault { return loadtest.Fault{Status: n % 2 * 500} }})
	dir := filepath.Join(t.TempDir(), "new")
	o := against(t, s, "--model a<b --plot-timeline --plot-dataset-stats --result-filename r.x.json --result-dir "+dir)
	r, err := Run(t.Context(), o, time.Now, io.Discard, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 10, r.Completed)
	page, err := os.ReadFile(filepath.Join(dir, "r.x.timeline.html"))
	require.NoError(t, err)
	require.Equal(t, 10, elements(t, svg(string(page)))["g"], "a row for each completed request")
	require.NotContains(t, string(page), "<script")
	require.Contains(t, string(page), "a&lt;b")
	drawing, err := os.ReadFile(filepath.Join(dir, "r.x.dataset_stats.svg"))
	require.NoError(t, err)
	require.Equal(t, 3, elements(t, string(drawing))["g"])
	require.Contains(t, string(drawing), "8 to 8 tokens: 10")
	require.Contains(t, string(drawing), "12 to 12 tokens: 10")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "no result was asked for")
}

// Drawings replace older ones, and nothing else. Whatever else is in their place is found before the load.
func TestPlotsReplacePlotsOnly(t *testing.T) {
	s := start(t, loadtest.Options{})
	dir := t.TempDir()
	o := against(t, s, "--plot-timeline --plot-dataset-stats --result-filename r.json --result-dir "+dir)
	for range 2 {
		_, err := Run(t.Context(), o, time.Now, io.Discard, io.Discard)
		require.NoError(t, err)
		require.NoError(t, o.CheckOutput())
	}
	for name, want := range map[string]string{
		"r.timeline.html":     "--plot-timeline " + dir + "/r.timeline.html: the file exists and is not a timeline of a load client",
		"r.dataset_stats.svg": "--plot-dataset-stats " + dir + "/r.dataset_stats.svg: the file exists and is not a plot of a load client",
	} {
		path := filepath.Join(dir, name)
		drawing, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, []byte("<!DOCTYPE html>\n<title>notes</title>"), 0o644))
		require.ErrorContains(t, o.CheckOutput(), want)
		_, err = Run(t.Context(), o, time.Now, io.Discard, io.Discard)
		require.ErrorContains(t, err, want, "changed while the load ran")
		require.NoError(t, os.WriteFile(path, drawing, 0o644))
	}
	same := o
	same.SaveRequests = "r.timeline.html"
	require.ErrorContains(t, same.CheckOutput(), "another option names the same file")
	o.ResultDir = filepath.Join(dir, "r.timeline.html")
	require.ErrorContains(t, o.CheckOutput(), "--plot-timeline")
}

func TestTimelineColoursGaps(t *testing.T) {
	m := measured(t, "--timeline-itl-thresholds 10,20", 1, sent(0.1, 0.2, 0.205, 0.21, 0.225, 0.5), answer.Outcome{})
	page := string(m.timeline())
	for k, n := range []int{2, 2, 2, 2} { // in the legend, and once in the row
		require.Equal(t, n, strings.Count(page, timelineColours[k]), "%d", k)
	}
	require.Equal(t, 1, elements(t, svg(page))["g"])
	elements(t, string(measured(t, "", 1, answer.Outcome{}).lengths()))
	elements(t, svg(string(measured(t, "", 1).timeline())))
}
