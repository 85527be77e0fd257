package figure

import (
	"golang.org/x/image/font/sfnt"
)

// Boxed are the texts of the figure with characters that a PNG shows as boxes, because its font
// lacks them, each once. An SVG leaves the choice of the font to whoever shows it.
func (f *Figure) Boxed() ([]string, error) {
	cache, err := fonts()
	if err != nil {
		return nil, err
	}
	var buf sfnt.Buffer
	face := (&pen{fonts: cache}).face(tickSize, false).Face
	var list []string
	seen := map[string]bool{}
	for _, text := range f.texts() {
		if text = clean(text); seen[text] {
			continue
		}
		seen[text] = true
		for _, r := range text {
			if i, err := face.GlyphIndex(&buf, r); err != nil || i == 0 {
				list = append(list, text)
				break
			}
		}
	}
	return list, nil
}

// texts are all texts of the figure.
func (f *Figure) texts() []string {
	list := append([]string{f.Title}, f.Caption...)
	for _, row := range f.Panels {
		for _, p := range row {
			list = append(list, p.Title, p.X.Label, p.Y.Label)
			for _, s := range p.Spans {
				list = append(list, s.Name)
			}
			for _, s := range p.Series {
				list = append(list, s.Name)
				for _, q := range s.Points {
					list = append(list, q.Label)
				}
			}
		}
	}
	return list
}
