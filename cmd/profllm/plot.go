package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/definition"
	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/figure"
	"github.com/profllm/profllm/pkg/interchange"
	"github.com/profllm/profllm/pkg/pareto"
	"github.com/profllm/profllm/pkg/plot"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
	"github.com/profllm/profllm/pkg/terminal"
)

type plotCmd struct {
	Metrics      plotMetricsCmd      `cmd:"" default:"withargs" help:"Draw one metric or setting against another (default)."`
	Latency      plotLatencyCmd      `cmd:"" help:"Draw latencies against throughput, with labelled loads."`
	Pareto       plotParetoCmd       `cmd:"" help:"Draw tokens/s per user against tokens/s per GPU, and the frontier."`
	Distribution plotDistributionCmd `cmd:"" meant:"histogram,cdf,ecdf" help:"Draw how many requests were at most how slow."`
	Timeline     plotTimelineCmd     `cmd:"" meant:"telemetry" help:"Draw what the engines and GPUs of one job did over time."`
	Scaling      plotScalingCmd      `cmd:"" meant:"speedup,efficiency" help:"Draw speed-up and efficiency over the number of GPUs."`
}

// plotFlags are what all figures have in common.
type plotFlags struct {
	placeFlags
	Paths []string `arg:"" optional:"" help:"Folders of records or of vLLM's sweeps, run directories, records, or archives; default: the results folder."`

	Format   []string `enum:"png,svg" default:"png" help:"Forms of the files, comma-separated: ${enum}."`
	Terminal bool     `help:"Draw on the terminal and write no file."`
	priceFlag
	FilterBy string `placeholder:"CONDITIONS" help:"Draw only runs that meet these comma-separated conditions, such as max_concurrency<1000,engine==vllm."`

	FigDir    string  `placeholder:"DIR" help:"Folder of the files, relative to the first path; default: the first path."`
	FigName   string  `placeholder:"NAME" help:"First part of the files' names; default: the kind of figure."`
	FigHeight float64 `placeholder:"INCHES" help:"Height of each panel in inches; default: 6.4, or less if panels lie one below the other."`
	FigDPI    int     `name:"fig-dpi" default:"300" help:"Resolution of PNG files in dots per inch."`
	DryRun    bool    `help:"Print what would be drawn and write nothing."`
}

// priceFlag says what GPUs cost.
type priceFlag struct {
	GPUHourUSD *float64 `name:"gpu-hour-usd" meant:"cost,price" placeholder:"USD" help:"Price of an hour of one GPU, for costs per million tokens; default: gpu_hour_usd of the system file of each run."`
}

// Validate is called by the parser.
func (f priceFlag) Validate() error {
	if v := f.GPUHourUSD; v != nil && !(*v >= 0 && *v <= 1e6) {
		return fmt.Errorf("--gpu-hour-usd %g: want 0 to 1000000", *v)
	}
	return nil
}

// price gives runs that price.
func (f priceFlag) price(runs []records.Run) {
	for i := range runs {
		if r := runs[i].Result; r != nil && f.GPUHourUSD != nil {
			r.Results.GPUHourUSD = f.GPUHourUSD
		}
	}
}

// axisFlags choose what stands on the axes.
type axisFlags struct {
	BinBy  string `placeholder:"BINS" help:"Round these columns down to multiples, comma-separated, such as request_throughput%1."`
	ScaleX string `placeholder:"SCALE" help:"Scale of the x axis: linear, log or sqrt."`
	ScaleY string `placeholder:"SCALE" help:"Scale of the y axis: linear, log or sqrt."`
}

// scales reads the scales of both axes.
func (f axisFlags) scales() (x, y figure.Scale, err error) {
	if x, err = figure.ParseScale(f.ScaleX); err != nil {
		return "", "", fail(exitUsage, fmt.Errorf("--scale-x: %w", err))
	}
	if y, err = figure.ParseScale(f.ScaleY); err != nil {
		return "", "", fail(exitUsage, fmt.Errorf("--scale-y: %w", err))
	}
	return x, y, nil
}

// load reads the records and vLLM's sweeps below the paths.
func (f *plotFlags) load(ctx context.Context, a *app) (runs []records.Run, sweeps []interchange.Sweep,
	done func(), err error) {
	done = func() {}
	if f.Paths, err = f.paths(ctx, a, f.Paths); err != nil {
		return nil, nil, done, err
	}
	places, done, err := a.unpacked(ctx, f.Paths)
	if err != nil {
		return nil, nil, done, err
	}
	if runs, err = records.Load(places...); err != nil {
		return nil, nil, done, fail(exitUsage, err)
	}
	f.price(runs)
	for _, path := range places {
		list, err := interchange.Sweeps(path, func(path string, err error) {
			a.logf("note: left out: %s: %v", a.archives.Named(path), err)
		})
		if err != nil {
			return nil, nil, done, fail(exitUsage, err)
		}
		sweeps = append(sweeps, list...)
	}
	if len(runs)+len(sweeps) == 0 {
		return nil, nil, done, fail(exitUsage, definition.NoRecords(f.Paths...))
	}
	return runs, sweeps, done, nil
}

// read makes a table of the runs below the paths, without what the filter excludes.
func (f *plotFlags) read(ctx context.Context, a *app) (t *plot.Table, done func(), err error) {
	conditions, err := plot.ParseConditions(f.FilterBy)
	if err != nil {
		return nil, func() {}, fail(exitUsage, fmt.Errorf("--filter-by: %w", err))
	}
	runs, sweeps, done, err := f.load(ctx, a)
	if err != nil {
		return nil, done, err
	}
	t = plot.NewTable(runs, sweeps)
	if len(t.Rows) == 0 {
		return nil, done, fail(exitUsage,
			fmt.Errorf("no run can be drawn: %s\n\thint: profllm report shows why", t.Gone()))
	}
	if err := t.Filter(conditions); err != nil {
		return nil, done, fail(exitUsage, err)
	}
	if len(t.Rows) == 0 {
		return nil, done, fail(exitUsage, fmt.Errorf("--filter-by %s: no run meets the conditions", f.FilterBy))
	}
	return t, done, nil
}

// dir is where the files go.
func (f *plotFlags) dir(a *app) string {
	dir := f.Paths[0]
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		dir = filepath.Dir(dir)
	}
	if filepath.IsAbs(f.FigDir) {
		return f.FigDir
	}
	return filepath.Join(dir, f.FigDir)
}

// draw shows figures, or writes their files, and says what is in each.
func (f *plotFlags) draw(a *app, list []plot.Named) error {
	if f.FigHeight != 0 {
		for i := range list {
			list[i].Figure.Height = f.FigHeight
		}
	}
	if f.Terminal && !f.DryRun {
		return a.showFigures(list)
	}
	dir := f.dir(a)
	if !f.DryRun {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fail(exitUsage, err)
		}
	}
	for i := range list {
		for _, form := range slices.Compact(slices.Sorted(slices.Values(f.Format))) {
			path := filepath.Join(dir, list[i].Name+"."+form)
			if !f.DryRun {
				if err := pictureFile(path, form).WriteBy(func(w io.Writer) error {
					if form == "svg" {
						return list[i].Figure.SVG(w)
					}
					return list[i].Figure.PNG(w, f.FigDPI)
				}); err != nil {
					return fail(exitUsage, err)
				}
			}
			if err := a.printLine(path + ": " + contents(&list[i])); err != nil {
				return err
			}
		}
	}
	if f.DryRun || !slices.Contains(f.Format, "png") {
		return nil
	}
	return a.warnOfBoxes(list)
}

// warnOfBoxes says once which texts the font of PNG files cannot show.
func (a *app) warnOfBoxes(list []plot.Named) error {
	var boxed []string
	for i := range list {
		texts, err := list[i].Figure.Boxed()
		if err != nil {
			return err
		}
		for _, t := range texts {
			if !slices.Contains(boxed, t) {
				boxed = append(boxed, t)
			}
		}
	}
	if len(boxed) == 0 {
		return nil
	}
	named := strconv.Quote(boxed[0])
	if n := len(boxed) - 1; n > 0 {
		named += " and " + quantity.Count(n, "more text")
	}
	a.logf("warning: the PNG shows boxes in %s: its font has Latin, Greek and Cyrillic only\n\thint: --format svg", named)
	return nil
}

// contents says what is in a figure.
func contents(n *plot.Named) string {
	rows, cols := len(n.Figure.Panels), 0
	for _, row := range n.Figure.Panels {
		cols = max(cols, len(row))
	}
	text := fmt.Sprintf("%s, %s", quantity.Count(n.Series, "curve"), quantity.Count(n.Runs, "run"))
	if rows*cols > 1 {
		text += fmt.Sprintf(", %d x %d panels", rows, cols)
	}
	return text
}

// pictureFile is a picture, which replaces an older one of its form.
func pictureFile(path, form string) durable.Output {
	return durable.Output{Path: path, Kind: "a picture in the form " + form, Ours: func(head []byte) bool {
		if form == "png" {
			return bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n"))
		}
		return bytes.HasPrefix(head, []byte("<?xml")) && bytes.Contains(head, []byte("<svg"))
	}}
}

// showFigures draws figures on standard output.
func (a *app) showFigures(list []plot.Named) error {
	s := a.screenOf(a.stdout)
	w := a.stdout
	if s != (terminal.Screen{}) {
		w = s.Writer(a.stdout)
	}
	for i := range list {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := list[i].Figure.Text(w, figure.Terminal{Columns: s.Width, Colour: s.Colour}); err != nil {
			return err
		}
	}
	return nil
}

type plotMetricsCmd struct {
	plotFlags
	axisFlags
	VarX    string   `default:"request_throughput" placeholder:"COLUMN" help:"Metric or setting on the x axis."`
	VarY    string   `default:"p99_e2el_ms" placeholder:"COLUMN" help:"Metric or setting on the y axis."`
	FigBy   []string `placeholder:"COLUMN" help:"Draw one figure for each combination of values of these columns."`
	RowBy   []string `placeholder:"COLUMN" help:"Draw one row of panels for each combination of values of these columns."`
	ColBy   []string `placeholder:"COLUMN" help:"Draw one column of panels for each combination of values of these columns."`
	CurveBy []string `placeholder:"COLUMN" help:"Draw one curve for each combination of values of these columns."`

	NoErrorBars bool `help:"Draw no error bars at means of several runs."`
}

// Run draws what vllm bench sweep plot draws.
func (c plotMetricsCmd) Run(ctx context.Context, a *app) error {
	o := plot.GridOptions{
		Name: c.FigName, FigBy: c.FigBy, RowBy: c.RowBy, ColBy: c.ColBy, CurveBy: c.CurveBy, VarX: c.VarX, VarY: c.VarY,
		NoErrorBars: c.NoErrorBars,
	}
	var err error
	if o.ScaleX, o.ScaleY, err = c.scales(); err != nil {
		return err
	}
	bins, err := plot.ParseBins(c.BinBy)
	if err != nil {
		return fail(exitUsage, fmt.Errorf("--bin-by: %w", err))
	}
	t, done, err := c.read(ctx, a)
	defer done()
	if err != nil {
		return err
	}
	if err := t.Bin(bins); err != nil {
		return fail(exitUsage, err)
	}
	list, err := plot.Grid(t, o)
	if err != nil {
		return fail(exitUsage, err)
	}
	return c.draw(a, list)
}

type plotParetoCmd struct {
	plotFlags
	UserCountVar string   `default:"max_concurrency" placeholder:"COLUMN" help:"Column that counts users; without a number there, request_rate, then max_concurrent_requests."`
	GPUCountVar  string   `name:"gpu-count-var" placeholder:"COLUMN" help:"Column that counts GPUs; default: gpus of a record, or the product of a sweep's parallel sizes."`
	LabelBy      []string `default:"max_concurrency,gpu_count" placeholder:"COLUMN" help:"Columns whose values stand at the points of the frontier."`
	Mean         bool     `help:"Draw the frontier of the means of repeats, not of single runs."`
}

// Run draws what vllm bench sweep plot_pareto draws.
func (c plotParetoCmd) Run(ctx context.Context, a *app) error {
	t, done, err := c.read(ctx, a)
	defer done()
	if err != nil {
		return err
	}
	o := plot.ParetoOptions{
		Options: pareto.Options{Users: c.UserCountVar, GPUs: c.GPUCountVar}, LabelBy: c.LabelBy, Mean: c.Mean,
	}
	n, err := plot.Pareto(t, o)
	if err != nil {
		return fail(exitUsage, err)
	}
	return c.drawOne(a, n)
}

// drawOne draws a figure under the name that was asked for.
func (f *plotFlags) drawOne(a *app, n plot.Named) error {
	if f.FigName != "" {
		n.Name = filepath.Base(f.FigName)
	}
	return f.draw(a, []plot.Named{n})
}

type plotLatencyCmd struct {
	plotFlags
	axisFlags
	VarX        string   `default:"output_throughput" placeholder:"COLUMN" help:"Metric on the x axis."`
	VarY        []string `placeholder:"COLUMN" help:"Metrics on the y axis, a panel each; default: the medians of TTFT, ITL (else TPOT) and E2EL."`
	NoErrorBars bool     `help:"Draw no error bars at means of several runs."`
}

// Run draws latencies against throughput.
func (c plotLatencyCmd) Run(ctx context.Context, a *app) error {
	o := plot.LatencyOptions{VarX: c.VarX, VarY: c.VarY, NoErrorBars: c.NoErrorBars}
	var err error
	if o.ScaleX, o.ScaleY, err = c.scales(); err != nil {
		return err
	}
	t, done, err := c.read(ctx, a)
	defer done()
	if err != nil {
		return err
	}
	n, err := plot.Latency(t, o)
	if err != nil {
		return fail(exitUsage, err)
	}
	return c.drawOne(a, n)
}

type plotScalingCmd struct {
	plotFlags
	VarY        string `default:"output_throughput" placeholder:"COLUMN" help:"Throughput that grows with the GPUs."`
	GPUCountVar string `name:"gpu-count-var" placeholder:"COLUMN" help:"Column that counts GPUs; default: the product of the parallel sizes, or gpus of a record with several roles."`
}

// Run draws speed-up and efficiency over the number of GPUs.
func (c plotScalingCmd) Run(ctx context.Context, a *app) error {
	t, done, err := c.read(ctx, a)
	defer done()
	if err != nil {
		return err
	}
	n, err := plot.Scaling(t, plot.ScalingOptions{VarY: c.VarY, GPUs: c.GPUCountVar})
	if err != nil {
		return fail(exitUsage, err)
	}
	return c.drawOne(a, n)
}

type plotDistributionCmd struct {
	plotFlags
	Family []string `placeholder:"NAME" help:"Latencies, a panel each: ttft, tpot, itl, e2el; default: ttft, itl, e2el."`
	ScaleX string   `placeholder:"SCALE" default:"log" help:"Scale of the x axis: linear, log or sqrt."`
}

// Run draws the distributions of latencies.
func (c plotDistributionCmd) Run(ctx context.Context, a *app) error {
	var o plot.DistributionOptions
	for _, name := range c.Family {
		f := result.Family(strings.ToLower(name))
		if !slices.Contains(result.Families(), f) {
			return fail(exitUsage, fmt.Errorf("--family %q: want %s", name, list(result.Families(), ", ")))
		}
		o.Families = append(o.Families, f)
	}
	var err error
	if o.ScaleX, _, err = (axisFlags{ScaleX: c.ScaleX}).scales(); err != nil {
		return err
	}
	t, done, err := c.read(ctx, a)
	defer done()
	if err != nil {
		return err
	}
	n, err := plot.Distribution(t, o)
	if err != nil {
		return fail(exitUsage, err)
	}
	return c.drawOne(a, n)
}

type plotTimelineCmd struct {
	plotFlags
}

// Run draws what one job did over time.
func (c plotTimelineCmd) Run(ctx context.Context, a *app) error {
	runs, _, done, err := c.load(ctx, a)
	defer done()
	if err != nil {
		return err
	}
	n, err := plot.Timeline(runs)
	if err != nil {
		return fail(exitUsage, err)
	}
	return c.drawOne(a, n)
}
