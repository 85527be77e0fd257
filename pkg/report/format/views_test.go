package format_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/inline"
	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
)

// withViews is the page of a report with the dashboard's views, and its block of data.
func withViews(t *testing.T, r *report.Report) (html, data string) {
	t.Helper()
	var out, again bytes.Buffer
	page := format.Page{Views: true, Link: func(dir string) string { return "./" + dir + "/" }}
	require.NoError(t, page.Write(&out, r))
	require.NoError(t, page.Write(&again, r))
	require.Equal(t, out.Bytes(), again.Bytes(), "the same report gives the same bytes")
	m := regexp.MustCompile(`(?s)<script type="application/json" id="runs">(.*?)</script>`).FindStringSubmatch(out.String())
	require.NotNil(t, m)
	return out.String(), m[1]
}

func digest(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "sha256-" + strings.ReplaceAll(base64.StdEncoding.EncodeToString(sum[:]), "+", "&#43;")
}

// The page with views is the page without them, a link, a style, a script and data. What web/ builds, the data, and
// the style that both pages have are marks in the golden file.
//
// covers: CD-34
func TestPageWithViews(t *testing.T) {
	golden, err := filepath.Abs(filepath.Join("testdata", "golden", "views.html"))
	require.NoError(t, err)
	inTemp(t)
	night(t)
	r := report.Build(load(t, "results"), report.Options{})
	html, data := withViews(t, r)
	style := regexp.MustCompile(`(?s)<style id="report-style">(.*?)</style>`).FindStringSubmatch(html)
	require.NotNil(t, style)
	var plain bytes.Buffer
	require.NoError(t, format.Page{}.Write(&plain, r))
	require.Contains(t, plain.String(), "<style>"+style[1]+"</style>")
	require.Contains(t, html, digest(inline.Script), "the policy lets the script of the views run")
	got := html
	for text, mark := range map[string]string{
		inline.Script: "SCRIPT", inline.Style: "STYLE", data: "DATA", digest(inline.Script): "sha256-OF-SCRIPT",
		style[1]: "STYLE-OF-BOTH",
	} {
		require.Equal(t, 1, strings.Count(got, text), mark)
		got = strings.Replace(got, text, mark, 1)
	}
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
	require.NotRegexp(t, `(?i)src\s*=|href\s*=\s*"[^#.]|@import|url\(`, got)
	require.True(t, format.PageFile("page.html").Ours([]byte(html)[:200]), "a page may replace this one")
	var d struct {
		IDs     []string `json:"ids"`
		Details []any    `json:"details"`
	}
	require.NoError(t, json.Unmarshal([]byte(data), &d))
	require.Len(t, d.IDs, len(d.Details))
}
