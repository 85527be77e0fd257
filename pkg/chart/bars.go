package chart

import (
	"cmp"

	"github.com/profllm/profllm/pkg/drawing"
)

// Bars is a chart of horizontal bars from zero: for each Bar a label, and one
// bar for each series.
type Bars struct {
	Title  string
	Unit   string
	Series []string // at most 3
	Bars   []Bar
}

// Bar is the values of one thing.
type Bar struct {
	Label  string
	Tip    string     // a tooltip; "" for the label
	Values []*float64 // len == series; nil: no value
	Mark   bool       // draw the label as the best
}

const (
	labelWidth = 230.0
	valueWidth = 70.0
)

// SVG draws the chart.
func (b Bars) SVG() string {
	var d markup
	top, block := 26.0, float64(len(b.Series))*barHeight+8
	if len(b.Series) > 1 {
		top += 18
	}
	bottom := top + float64(len(b.Bars))*block
	d.open(b.Title, bottom+34)
	d.text(0, 14, "start", "head", b.Title)
	if len(b.Series) > 1 {
		b.legend(&d)
	}
	ticks := drawing.Ticks(min(b.extreme(-1), 0), max(b.extreme(1), 0), 6)
	lo, hi := ticks[0], ticks[len(ticks)-1]
	x := func(v float64) float64 { return labelWidth + (v-lo)/(hi-lo)*(width-labelWidth-valueWidth) }
	for i, text := range drawing.TickTexts(ticks) {
		at := x(ticks[i])
		d.line("grid", at, top, at, bottom)
		d.text(at, bottom+14, "middle", "dim", text)
	}
	d.line("axis", x(0), top, x(0), bottom)
	d.text(width, bottom+30, "end", "dim", b.Unit)
	for i, bar := range b.Bars {
		bar.draw(&d, x, top+float64(i)*block+4, len(b.Series))
	}
	d.addf("</svg>")
	return d.String()
}

// extreme is the largest value in that direction, 0 if there is none beyond.
func (b Bars) extreme(sign float64) float64 {
	most := 0.0
	for _, bar := range b.Bars {
		for _, v := range bar.Values {
			if v != nil && drawing.Finite(*v) && sign**v > sign*most {
				most = *v
			}
		}
	}
	return most
}

func (b Bars) legend(d *markup) {
	x := labelWidth
	for i, name := range b.Series {
		d.addf(`<rect class="s%d" x="%s" y="22" width="10" height="10"/>`, i, f(x))
		d.text(x+14, 31, "start", "dim", name)
		x += 24 + 7*float64(len([]rune(name)))
	}
}

func (bar Bar) draw(d *markup, x func(float64) float64, y float64, series int) {
	class := ""
	if bar.Mark {
		class = "mark"
	}
	d.addf("<g><title>%s</title>", escape(cmp.Or(bar.Tip, bar.Label)))
	d.text(labelWidth-8, y+float64(series)*barHeight/2+textSize/3, "end", class, cut(bar.Label))
	for i := range series {
		at := y + float64(i)*barHeight
		if i >= len(bar.Values) || bar.Values[i] == nil || !drawing.Finite(*bar.Values[i]) {
			d.text(x(0)+4, at+barHeight-3, "start", "dim", "n/a")
			continue
		}
		v := *bar.Values[i]
		left, right := min(x(0), x(v)), max(x(0), x(v))
		d.addf(`<rect class="s%d" x="%s" y="%s" width="%s" height="%s"/>`, i, f(left), f(at+1), f(right-left),
			f(barHeight-2))
		d.text(right+4, at+barHeight-3, "start", "", Number(v))
	}
	d.addf("</g>")
}
