package figure

import (
	"fmt"
	"image/color"
	"math"
	"strings"
	"sync"

	"codeberg.org/go-fonts/liberation/liberationsansbold"
	"codeberg.org/go-fonts/liberation/liberationsansregular"
	xfont "golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// fonts are the two faces that are used. They are read when the first figure is drawn, so that
// no other command waits for them; gonum's package plot would read all twelve when the program
// starts.
var fonts = sync.OnceValues(func() (*font.Cache, error) {
	cache := font.NewCache(nil)
	for weight, ttf := range map[xfont.Weight][]byte{
		xfont.WeightNormal: liberationsansregular.TTF, xfont.WeightBold: liberationsansbold.TTF,
	} {
		face, err := opentype.Parse(ttf)
		if err != nil {
			return nil, fmt.Errorf("font of figures: %w", err)
		}
		cache.Add(font.Collection{{Font: sans(weight), Face: face}})
	}
	return cache, nil
})

func sans(w xfont.Weight) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Weight: w}
}

// Sizes of text in points.
const (
	titleSize   = 14.0
	headSize    = 11.0
	axisSize    = 11.0
	tickSize    = 10.0
	labelSize   = 9.0
	captionSize = 9.5
	leading     = 1.3 // of lines of text
)

// pen draws on a canvas whose origin is at the top left, in points.
type pen struct {
	c      vg.Canvas
	height float64
	fonts  *font.Cache
	buf    sfnt.Buffer
}

type anchor float64

const (
	start  anchor = 0
	middle anchor = 0.5
	end    anchor = 1
)

func (p *pen) face(size float64, bold bool) font.Face {
	w := xfont.WeightNormal
	if bold {
		w = xfont.WeightBold
	}
	return p.fonts.Lookup(sans(w), vg.Length(size))
}

// width is that of a line of text. A character that the font lacks counts as one of full width,
// which whoever shows an SVG finds in another font.
func (p *pen) width(s string, size float64, bold bool) float64 {
	face := p.face(size, bold)
	lacking := 0
	have := strings.Map(func(r rune) rune {
		if i, err := face.Face.GlyphIndex(&p.buf, r); err != nil || i == 0 {
			lacking++
			return -1
		}
		return r
	}, s)
	return face.Width(have).Points() + float64(lacking)*size
}

// text writes a line with its baseline at y.
func (p *pen) text(x, y, size float64, bold bool, a anchor, ink color.Color, s string) {
	if s == "" {
		return
	}
	if a != start {
		x -= float64(a) * p.width(s, size, bold)
	}
	p.c.SetColor(ink)
	p.c.FillString(p.face(size, bold), p.at(x, y), s)
}

func (p *pen) at(x, y float64) vg.Point {
	return vg.Point{X: vg.Length(x), Y: vg.Length(p.height - y)}
}

// wrapped breaks a text into lines of a width.
func (p *pen) wrapped(s string, size, width float64, bold bool) []string {
	return wrap(s, func(s string) bool { return p.width(s, size, bold) <= width })
}

// wrap breaks a text between words, and words that do not fit into a line within.
func wrap(s string, fits func(string) bool) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		if joined := strings.TrimSpace(line + " " + word); fits(joined) {
			line = joined
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for !fits(word) && len([]rune(word)) > 1 {
			runes := []rune(word)
			n := 1
			for n < len(runes) && fits(string(runes[:n+1])) {
				n++
			}
			lines = append(lines, string(runes[:n]))
			word = string(runes[n:])
		}
		line = word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

func (p *pen) polyline(ink color.Color, width float64, dash []vg.Length, xy [][2]float64) {
	if len(xy) < 2 {
		return
	}
	p.c.SetColor(ink)
	p.c.SetLineWidth(vg.Length(width))
	p.c.SetLineDash(dash, 0)
	var path vg.Path
	for i, q := range xy {
		if i == 0 {
			path.Move(p.at(q[0], q[1]))
			continue
		}
		path.Line(p.at(q[0], q[1]))
	}
	p.c.Stroke(path)
}

func (p *pen) line(ink color.Color, width, x1, y1, x2, y2 float64) {
	p.polyline(ink, width, nil, [][2]float64{{x1, y1}, {x2, y2}})
}

func (p *pen) rect(ink color.Color, x1, y1, x2, y2 float64) {
	p.c.SetColor(ink)
	p.c.Fill(p.outline([][2]float64{{x1, y1}, {x2, y1}, {x2, y2}, {x1, y2}}))
}

func (p *pen) outline(xy [][2]float64) vg.Path {
	var path vg.Path
	path.Move(p.at(xy[0][0], xy[0][1]))
	for _, q := range xy[1:] {
		path.Line(p.at(q[0], q[1]))
	}
	path.Close()
	return path
}

// mark draws the mark of a style.
func (p *pen) mark(style int, x, y, radius float64, hollow bool) {
	var path vg.Path
	if s := shapeOf(style); s.corners == nil {
		at := p.at(x, y)
		path.Move(vg.Point{X: at.X + vg.Length(radius), Y: at.Y})
		path.Arc(at, vg.Length(radius), 0, 2*math.Pi)
		path.Close()
	} else {
		xy := make([][2]float64, len(s.corners))
		for i, c := range s.corners {
			xy[i] = [2]float64{x + c[0]*radius, y - c[1]*radius}
		}
		path = p.outline(xy)
	}
	p.c.SetColor(inkOf(style))
	if !hollow {
		p.c.Fill(path)
		return
	}
	p.c.SetColor(paper)
	p.c.Fill(path)
	p.c.SetColor(inkOf(style))
	p.c.SetLineWidth(1.3)
	p.c.SetLineDash(nil, 0)
	p.c.Stroke(path)
}
