package load

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/load/answer"
)

// Plots are the flags of vLLM's client that draw a run. It draws with plotly and matplotlib; here
// the files need no network and no script.
type Plots struct {
	PlotTimeline          bool   `name:"plot-timeline" help:"Write the requests as bars over time, beside the result: NAME.timeline.html."`
	TimelineITLThresholds string `name:"timeline-itl-thresholds" default:"25,50" help:"Limits of the colours of gaps between tokens, in ms."`
	PlotDatasetStats      bool   `name:"plot-dataset-stats" help:"Write the lengths of prompts and answers as histograms, beside the result: NAME.dataset_stats.svg."`
}

// thresholds returns the limits of colours, in ms.
func (p *Plots) thresholds() (low, high float64, err error) {
	a, b, ok := strings.Cut(p.TimelineITLThresholds, ",")
	low, errLow := strconv.ParseFloat(strings.TrimSpace(a), 64)
	high, errHigh := strconv.ParseFloat(strings.TrimSpace(b), 64)
	if !ok || errLow != nil || errHigh != nil || !(low >= 0 && low <= high) {
		return 0, 0, fmt.Errorf("--timeline-itl-thresholds %q: want two numbers of ms in order, such as 25,50",
			p.TimelineITLThresholds)
	}
	return low, high, nil
}

func (o *Options) checkPlots() error {
	_, _, err := o.thresholds()
	switch {
	case err != nil:
		return err
	case o.PlotTimeline && o.pools():
		return fmt.Errorf("--plot-timeline draws tokens, which --backend %s has not", o.Backend)
	case o.PlotDatasetStats && !(o.PlotTimeline || o.SaveResult || o.AppendResult):
		return fmt.Errorf("--plot-dataset-stats has no name without --save-result or --plot-timeline")
	}
	return nil
}

// The beginnings of the drawings, by which an older one is known.
const (
	timelineHead = "<!DOCTYPE html>\n" + `<html lang="en"><head><meta charset="utf-8"><title>Timeline of `
	drawingHead  = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" ` +
		`font-size="12">` + "\n"
)

// plotFiles are the drawings that are wanted, beside a result of that name; none if it has no name yet.
func (o *Options) plotFiles(result string) []durable.Output {
	if result == "" {
		return nil
	}
	stem := strings.TrimSuffix(filepath.Join(o.ResultDir, result), filepath.Ext(result))
	begins := func(with string) func([]byte) bool {
		return func(head []byte) bool { return bytes.HasPrefix(head, []byte(with)) }
	}
	var files []durable.Output
	if o.PlotTimeline {
		files = append(files, durable.Output{Option: "--plot-timeline", Path: stem + ".timeline.html",
			Kind: "a timeline of a load client", MakesFolder: true, Ours: begins(timelineHead)})
	}
	if o.PlotDatasetStats {
		files = append(files, durable.Output{Option: "--plot-dataset-stats", Path: stem + ".dataset_stats.svg",
			Kind: "a plot of a load client", MakesFolder: true,
			Ours: begins(fmt.Sprintf(drawingHead, 3*histogramWidth, histogramHeight))})
	}
	return files
}

// plot writes the drawings that are wanted, and says where they are.
func (m *measurement) plot(r *Report, stderr io.Writer) error {
	draw := map[string]func() []byte{"--plot-timeline": m.timeline, "--plot-dataset-stats": m.lengths}
	for _, out := range m.options.plotFiles(r.fileName(m.options)) {
		if err := durable.CheckOutputs(out); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(out.Path), 0o777); err != nil {
			return fmt.Errorf("make the folder of a plot: %w", err)
		}
		if err := durable.WriteFile(out.Path, draw[out.Option](), 0o666); err != nil {
			return fmt.Errorf("write a plot: %w", err)
		}
		fmt.Fprintf(stderr, "wrote %s\n", out.Path)
	}
	return nil
}

// Colours of a timeline: the wait for the first token, then gaps by their length, as in vLLM.
var timelineColours = [...]string{"#636efa", "#109618", "#ff7f0e", "#d62728"}

// Sizes of a timeline, in pixels.
const (
	timelineWidth = 1200
	rowHeight     = 6
	plotMargin    = 60
)

// timeline draws each completed request as a bar from its send to its last token.
func (m *measurement) timeline() []byte {
	low, high, _ := m.options.thresholds() // Validate has refused others
	var rows []*answer.Outcome
	end := m.begin + 1
	for i := range m.outcomes {
		if o := &m.outcomes[i]; o.State == answer.Completed {
			rows = append(rows, o)
			end = max(end, o.Tokens[len(o.Tokens)-1])
		}
	}
	slices.SortStableFunc(rows, func(a, b *answer.Outcome) int { return cmp.Compare(a.Start, b.Start) })
	x := func(at int64) float64 {
		return plotMargin + float64(at-m.begin)/float64(end-m.begin)*(timelineWidth-2*plotMargin)
	}
	height := len(rows)*rowHeight + 2*plotMargin
	var b bytes.Buffer
	b.WriteString(timelineHead + html.EscapeString(m.model.id) + "</title></head><body>\n")
	fmt.Fprintf(&b, drawingHead, timelineWidth, height)
	for k, label := range []string{"TTFT", fmt.Sprintf("ITL < %g ms", low),
		fmt.Sprintf("%g ms ≤ ITL < %g ms", low, high), fmt.Sprintf("ITL ≥ %g ms", high)} {
		fmt.Fprintf(&b, `<rect x="%d" y="12" width="12" height="12" fill="%s"/><text x="%d" y="23">%s</text>`+"\n",
			plotMargin+200*k, timelineColours[k], plotMargin+200*k+18, html.EscapeString(label))
	}
	for k := range 6 {
		at := m.begin + (end-m.begin)/5*int64(k)
		fmt.Fprintf(&b, `<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#ccc"/>`+
			`<text x="%.1f" y="%d" text-anchor="middle">%.3g s</text>`+"\n",
			x(at), x(at), plotMargin-10, height-plotMargin, x(at), height-plotMargin+18, float64(at-m.begin)/second)
	}
	for k, o := range rows {
		drawRow(&b, o, plotMargin+k*rowHeight, x, low, high)
	}
	b.WriteString("</svg>\n</body></html>\n")
	return b.Bytes()
}

// drawRow draws one request. Neighbouring gaps of one colour are one bar.
func drawRow(b *bytes.Buffer, o *answer.Outcome, y int, x func(int64) float64, low, high float64) {
	fmt.Fprintf(b, `<g><title>sent at %.3f s, TTFT %.1f ms, E2EL %.1f ms, %d prompt tokens, %d output tokens</title>`,
		float64(o.Start)/second, o.TTFT()*1000, o.Latency()*1000, o.Input, o.Output)
	from, to, colour := o.Start, o.Tokens[0], 0
	bar := func() {
		fmt.Fprintf(b, `<rect x="%.2f" y="%d" width="%.2f" height="%d" fill="%s"/>`, x(from), y,
			max(x(to)-x(from), 0.1),
			rowHeight-1, timelineColours[colour])
	}
	for k := 1; k < len(o.Tokens); k++ {
		next := 1
		switch gap := float64(o.Tokens[k]-o.Tokens[k-1]) / 1e6; {
		case gap >= high:
			next = 3
		case gap >= low:
			next = 2
		}
		if next != colour {
			bar()
			from, colour = o.Tokens[k-1], next
		}
		to = o.Tokens[k]
	}
	bar()
	b.WriteString("</g>\n")
}

// Sizes of histograms, in pixels and bars.
const (
	histogramWidth  = 420
	histogramHeight = 300
	histogramBars   = 20
)

// lengths draws how many tokens prompts, answers and both together have.
func (m *measurement) lengths() []byte {
	var prompts, outputs, all []int
	for i := range m.outcomes {
		if o := &m.outcomes[i]; o.State == answer.Completed {
			prompts, outputs, all = append(prompts, o.Input), append(outputs, o.Output), append(all, o.Input+o.Output)
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, drawingHead, 3*histogramWidth, histogramHeight)
	for k, h := range []struct {
		title  string
		values []int
	}{{"Prompt tokens", prompts}, {"Output tokens", outputs}, {"Prompt and output tokens", all}} {
		fmt.Fprintf(&b, `<g transform="translate(%d 0)">`, k*histogramWidth)
		histogram(&b, h.title, h.values)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// histogram draws how often lengths occur.
func histogram(b *bytes.Buffer, title string, values []int) {
	fmt.Fprintf(b, `<text x="%d" y="20" text-anchor="middle">%s of %d requests</text>`, histogramWidth/2, title,
		len(values))
	if len(values) == 0 {
		return
	}
	lo, hi := slices.Min(values), slices.Max(values)
	width := max(int(math.Ceil(float64(hi-lo+1)/histogramBars)), 1)
	var counts [histogramBars]int
	for _, v := range values {
		counts[(v-lo)/width]++
	}
	most := slices.Max(counts[:])
	const room, step = histogramHeight - 80, (histogramWidth - 60) / histogramBars
	for k, n := range counts {
		height := float64(n) / float64(most) * room
		fmt.Fprintf(b,
			`<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="%s"><title>%d to %d tokens: %d</title></rect>`,
			30+k*step, 40+room-height, step-1, height, timelineColours[0], lo+k*width, lo+(k+1)*width-1, n)
	}
	fmt.Fprintf(b, `<text x="30" y="%d">%d</text><text x="%d" y="%d" text-anchor="end">%d</text>`, histogramHeight-20,
		lo, histogramWidth-30, histogramHeight-20, lo+histogramBars*width-1)
	fmt.Fprintf(b, `<text x="30" y="36">at most %d</text>`, most)
}
