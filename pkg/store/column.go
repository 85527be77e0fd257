package store

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"

	"github.com/profllm/profllm/pkg/field"
)

// own are the columns of the table of runs that are no fields.
var own = []string{"seq", "id", "record_hash", "setup_hash", "stored", "columns_of", "extra"}

// A column is where the table of runs keeps a fixed field.
type column struct {
	field *field.Field
	name  string
}

// longest is how long PostgreSQL lets a name be, in bytes.
const longest = 63

// columnName is the name of a field's column: small letters, digits and underscores.
func columnName(f string) string {
	name := []byte(strings.ToLower(f))
	for i, c := range name {
		if c != '_' && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			name[i] = '_'
		}
	}
	if len(name) > longest {
		sum := fmt.Sprintf("_%x", sha256.Sum256([]byte(f)))
		name = append(name[:longest-9], sum[:9]...)
	}
	return string(name)
}

// layout is the columns of this release.
type layout struct {
	columns []column
	byField map[string]int // places in columns
	version string         // another for other columns
}

var known = sync.OnceValue(func() *layout { return layoutOf(field.All()) })

func layoutOf(fields []*field.Field) *layout {
	l := &layout{byField: map[string]int{}}
	h := sha256.New()
	for i, f := range fields {
		c := column{f, columnName(f.Name)}
		l.columns, l.byField[f.Name] = append(l.columns, c), i
		fmt.Fprintln(h, c.name, f.Kind)
	}
	l.version = fmt.Sprintf("%x", h.Sum(nil)[:6])
	return l
}

// column is that of a field; false if the field is kept in extra.
func (l *layout) column(name string) (column, bool) {
	i, ok := l.byField[name]
	if !ok {
		return column{}, false
	}
	return l.columns[i], true
}

// quoted is a name as both databases write it.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// harmless is a text as PostgreSQL takes it: UTF-8 without NUL.
func harmless(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
