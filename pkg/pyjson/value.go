package pyjson

// Bounds of what is read. A file is only walked, so that its bound is one of time;
// the others are of memory.
const (
	maxText   = 16 << 20 // of the strings of one Value
	maxValues = 1 << 18  // in one Value
)

// A Kind is what a value is.
type Kind byte

// The kinds. The zero Value is Absent.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	Text
	List
	Object
)

// A Value is one value with its place, and what is in it.
type Value struct {
	Kind      Kind
	Line, Col int // from 1; Col in bytes
	Num       float64
	Str       string // of a text; "true" or "false"
	Items     []Value
	Fields    []Field
}

// Finite is the number, if it is one that is neither NaN nor infinite.
func (v Value) Finite() (float64, bool) { return v.Num, v.Kind == Number && v.Num-v.Num == 0 }

// A Field is one key of an object. A key may be there twice.
type Field struct {
	Key   string
	Value Value
}

// At goes into objects; the Value is Absent where a key is missing. Of a key that
// is there twice it takes the last, as Python does.
func (v Value) At(keys ...string) Value {
	for _, key := range keys {
		next := Value{}
		for _, f := range v.Fields {
			if f.Key == key {
				next = f.Value
			}
		}
		v = next
	}
	return v
}

// Value reads the value that comes next, with all that is in it.
func (r *Reader) Value() (Value, error) {
	r.text, r.kept = 0, 0
	return r.value()
}

func (r *Reader) value() (v Value, err error) {
	v.Kind = r.Kind()
	v.Line, v.Col = r.Place()
	if r.kept++; r.kept > maxValues {
		return v, r.Errorf("more than %d values in one", maxValues)
	}
	switch v.Kind {
	case Object:
		err = r.Object(func(key string) error {
			x, err := r.value()
			if r.text += len(key); r.text > maxText {
				return r.Errorf("more than %d MiB of text in one value", maxText>>20)
			}
			v.Fields = append(v.Fields, Field{key, x})
			return err
		})
	case List:
		err = r.List(func() error {
			x, err := r.value()
			v.Items = append(v.Items, x)
			return err
		})
	case Text:
		v.Str, err = r.str(maxText - r.text)
		r.text += len(v.Str)
	default:
		var word []byte
		switch word, err = r.scalar(); v.Kind {
		case Bool:
			v.Str = string(word)
		case Number:
			v.Num, _ = ParseNumber(word)
		}
	}
	return v, err
}
