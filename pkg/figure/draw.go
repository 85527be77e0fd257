package figure

import (
	"bytes"
	"fmt"
	"image/png"
	"io"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// mostPixels bounds a PNG, whatever grid of panels was asked for: 100 million are 400 MB.
const mostPixels = 100e6

// SVG writes the figure as SVG. Its text is text, which whoever shows it draws.
func (f *Figure) SVG(w io.Writer) error {
	s, err := f.sheet()
	if err != nil {
		return err
	}
	c := vgsvg.New(vg.Length(s.width), vg.Length(s.height))
	s.draw(c)
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return err
	}
	_, err = strings.NewReplacer(
		svgHead, strings.TrimSuffix(svgHead, ">")+` role="img">`+"\n<title>"+escape(f.Title)+"</title>",
		svgFont, `style="font-family:Liberation Sans,Arial,Helvetica,sans-serif;`,
	).WriteString(w, b.String())
	return err
}

// What gonum writes and is replaced: the end of the root element, and a font that few machines
// have. No text can be mistaken for either, because quotes within text are escaped.
const (
	svgHead = `xmlns:xlink="http://www.w3.org/1999/xlink">`
	svgFont = `style="font-family:Liberation Sans;font-variant:normal;`
)

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(clean(s))
}

// PNG writes the figure as PNG, at dots per inch.
func (f *Figure) PNG(w io.Writer, dpi int) error {
	s, err := f.sheet()
	if err != nil {
		return err
	}
	scale := float64(dpi) / vg.Inch.Points()
	if dpi < 1 || s.width*scale*s.height*scale > mostPixels {
		return fmt.Errorf("a picture of %.0f x %.0f in at %d dots per inch would have more than %.0f million pixels",
			s.width/vg.Inch.Points(), s.height/vg.Inch.Points(), dpi, mostPixels/1e6)
	}
	c := vgimg.NewWith(vgimg.UseWH(vg.Length(s.width), vg.Length(s.height)), vgimg.UseDPI(dpi))
	s.draw(c)
	return png.Encode(w, c.Image())
}

// sheet is a figure whose measures are known.
type sheet struct {
	f             *Figure
	width, height float64
	title         []string
	entries       []entry
	caption       []string
	panels        [][]*laid
	tops          []float64 // of the rows of panels, and the end of the last
	panelHeight   float64
	panelWidth    float64
	top, legend   float64 // of the panels, and of the legend
	below         float64 // of the caption
}

// entry is one name of the legend.
type entry struct {
	named
	text string
	x, y float64
}

const (
	margin   = 12.0
	sample   = 26.0 // of a line in the legend, with the gap behind it
	between  = 18.0 // entries of the legend
	smallest = 1.2  // inches of a panel's height
	largest  = 60.0
)

// sheet measures the figure.
func (f *Figure) sheet() (*sheet, error) {
	cache, err := fonts()
	if err != nil {
		return nil, err
	}
	height, aspect := f.Height, f.Aspect
	if height == 0 {
		height = DefaultHeight
	}
	if aspect == 0 {
		aspect = 1
	}
	if !(height >= smallest && height <= largest) {
		return nil, fmt.Errorf("a panel of %g inches: want %g to %g", height, smallest, largest)
	}
	p := &pen{fonts: cache}
	s := &sheet{f: f, panelHeight: height * vg.Inch.Points()}
	s.panelWidth = s.panelHeight * aspect
	s.width = s.panelWidth*float64(f.columns()) + 2*margin
	inner := s.width - 2*margin
	s.title = p.wrapped(clean(f.Title), titleSize, inner, true)
	s.top = margin + float64(len(s.title))*titleSize*leading + 4
	unlabelled := s.lay(p)
	s.legend = s.tops[len(s.tops)-1] + 4
	list, more := f.legend()
	var high float64
	s.entries, high = entries(p, list, more, inner, 0)
	if s.below = s.legend; high > 0 {
		s.below += high + 6
	}
	for _, note := range f.notes(unlabelled) {
		s.caption = append(s.caption, p.wrapped(clean(note), captionSize, inner, false)...)
	}
	s.height = s.below + float64(len(s.caption))*captionSize*leading + margin
	return s, nil
}

// lay measures the panels, and gives those of a column the same edges. It counts the labels that
// have no room.
func (s *sheet) lay(p *pen) (unlabelled int) {
	left, right := make([]float64, s.f.columns()), make([]float64, s.f.columns())
	s.tops = []float64{s.top}
	for r, row := range s.f.Panels {
		var list []*laid
		high := 0.0
		for i := range row {
			l := lay(p, s.f, r, i, s.panelWidth, s.panelHeight)
			list = append(list, l)
			left[i], right[i] = max(left[i], l.left), max(right[i], s.panelWidth-l.right)
			high = max(high, l.height)
		}
		s.panels = append(s.panels, list)
		if len(row) == 0 {
			high = s.panelHeight
		}
		s.tops = append(s.tops, s.tops[r]+high)
	}
	for _, row := range s.panels {
		for i, l := range row {
			l.left, l.right = left[i], s.panelWidth-right[i]
			l.place(p)
			unlabelled += l.unlabelled
		}
	}
	return unlabelled
}

// entries places the entries of a legend in lines that begin at x and end at a width, and returns
// their height.
func entries(p *pen, list []named, more int, inner, x float64) (placed []entry, height float64) {
	if len(list) == 0 {
		return nil, 0
	}
	const line = tickSize * 1.5
	y, from := 0.0, x
	add := func(e entry, lead float64) {
		w := lead + p.width(e.text, tickSize, false)
		if x > from && x+w > inner {
			x, y = from, y+line
		}
		e.x, e.y = x, y
		placed = append(placed, e)
		x += w + between
	}
	for _, n := range list {
		text := clean(n.name)
		for runes := []rune(text); p.width(text, tickSize, false) > inner-from-sample && len(runes) > 1; {
			runes = runes[:len(runes)-1]
			text = string(runes) + "…"
		}
		add(entry{named: n, text: text}, sample)
	}
	if more > 0 {
		add(entry{text: fmt.Sprintf("and %d more", more)}, 0)
	}
	return placed, y + line
}

// draw draws everything.
func (s *sheet) draw(c vg.Canvas) {
	cache, _ := fonts() // read by sheet
	p := &pen{c: c, height: s.height, fonts: cache}
	p.rect(paper, 0, 0, s.width, s.height)
	for i, line := range s.title {
		p.text(margin, margin+titleSize+float64(i)*titleSize*leading, titleSize, true, start, ink, line)
	}
	for row, list := range s.panels {
		for col, l := range list {
			l.draw(p, margin+float64(col)*s.panelWidth, s.tops[row])
		}
	}
	for _, e := range s.entries {
		e.draw(p, margin+e.x, s.legend+e.y+tickSize)
	}
	for i, line := range s.caption {
		p.text(margin, s.below+captionSize+float64(i)*captionSize*leading, captionSize, false, start, dim, line)
	}
}

func (e entry) draw(p *pen, x, y float64) {
	if e.name == "" {
		p.text(x, y, tickSize, false, start, dim, e.text)
		return
	}
	at := y - tickSize*0.35
	if e.look.Line {
		p.polyline(inkOf(e.style), 1.6, dashesOf(e.look), [][2]float64{{x, at}, {x + sample - 6, at}})
	}
	if e.look.Marks || e.look.Sparse {
		p.mark(e.style, x+(sample-6)/2, at, markRadius, false)
	}
	p.text(x+sample, y, tickSize, false, start, ink, e.text)
}
