package source

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// Unmarshaler is a field type that reads its own value, for values that TOML
// types do not describe (a time limit, a string or a list). It returns *Error
// or a collection of them.
type Unmarshaler interface{ UnmarshalSource(v *Value) error }

// KeyUnmarshaler is an Unmarshaler that several keys have: its errors name the key that the user wrote.
type KeyUnmarshaler interface {
	UnmarshalKey(key string, v *Value) error
}

// Decode fills the struct that into points at. Fields are named by their toml
// tag; `toml:"name,required"` complains when the key is absent; a field of type
// *Table or *Value takes the raw tree. A pointer field stays nil when absent.
// Like CloudAI it takes numbers and booleans written as strings, but never a
// number for a string. An unknown key is an error. All complaints are returned
// together.
func Decode(t *Table, into any) error { return DecodeKey(t, into, "") }

// DecodeKey is Decode for the table of a key, which errors name.
func DecodeKey(t *Table, into any, key string) error {
	var c Complaints
	decodeTable(t, reflect.ValueOf(into).Elem(), key, &c)
	return c.Err()
}

// Fields lists the toml names of a struct, embedded structs included.
func Fields(v any) []string {
	t := reflect.TypeOf(v)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return fieldNames(t)
}

func fieldNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			names = append(names, fieldNames(f.Type)...)
			continue
		}
		if n, _, _ := strings.Cut(f.Tag.Get("toml"), ","); n != "" && n != "-" {
			names = append(names, n)
		}
	}
	return names
}

func decodeTable(t *Table, dst reflect.Value, path string, c *Complaints) {
	known := map[string]bool{}
	decodeFields(t, dst, path, known, c)
	for _, k := range t.Keys() {
		if known[k] {
			continue
		}
		names := make([]string, 0, len(known))
		for n := range known {
			names = append(names, n)
		}
		c.Add(Errorf(t.KeyPos(k), "unknown key %q%s", k, within(path)).Hintf("%s", Suggest(k, names)))
	}
}

func decodeFields(t *Table, dst reflect.Value, path string, known map[string]bool, c *Complaints) {
	for i := range dst.NumField() {
		f := dst.Type().Field(i)
		if f.Anonymous {
			decodeFields(t, dst.Field(i), path, known, c)
			continue
		}
		name, opt, _ := strings.Cut(f.Tag.Get("toml"), ",")
		if name == "" || name == "-" {
			continue
		}
		known[name] = true
		v := t.Get(name)
		if v == nil {
			if opt == "required" {
				c.Add(Errorf(t.Pos, "%s is required", join(path, name)))
			}
			continue
		}
		decodeValue(v, dst.Field(i), join(path, name), c)
	}
}

var (
	tableType       = reflect.TypeFor[*Table]()
	valueType       = reflect.TypeFor[*Value]()
	unmarshalerType = reflect.TypeFor[Unmarshaler]()
	keyedType       = reflect.TypeFor[KeyUnmarshaler]()
)

func decodeValue(v *Value, dst reflect.Value, path string, c *Complaints) {
	wrong := func(expected string) {
		c.Add(Errorf(v.Pos, "%s must be %s, not %s", path, expected, v.Describe()).Hintf("%s",
			retyped(v, expected, path)))
	}
	switch {
	case dst.Type() == valueType:
		dst.Set(reflect.ValueOf(v))
		return
	case dst.Type() == tableType:
		if t, ok := v.Any.(*Table); ok {
			dst.Set(reflect.ValueOf(t))
		} else {
			wrong("a table")
		}
		return
	case dst.Addr().Type().Implements(keyedType):
		c.Add(dst.Addr().Interface().(KeyUnmarshaler).UnmarshalKey(path, v))
		return
	case dst.Addr().Type().Implements(unmarshalerType):
		c.Add(dst.Addr().Interface().(Unmarshaler).UnmarshalSource(v))
		return
	}
	switch dst.Kind() {
	case reflect.Pointer:
		p := reflect.New(dst.Type().Elem())
		decodeValue(v, p.Elem(), path, c)
		dst.Set(p)
	case reflect.String, reflect.Int, reflect.Int64, reflect.Float64, reflect.Bool:
		if expected, ok := setScalar(v, dst); !ok {
			wrong(expected)
		}
	case reflect.Slice:
		list, ok := v.Any.([]*Value)
		if !ok {
			wrong("a list")
			return
		}
		s := reflect.MakeSlice(dst.Type(), len(list), len(list))
		for i, e := range list {
			decodeValue(e, s.Index(i), fmt.Sprintf("%s[%d]", path, i), c)
		}
		dst.Set(s)
	case reflect.Struct:
		if t, ok := v.Any.(*Table); ok {
			decodeTable(t, dst, path, c)
		} else {
			wrong("a table")
		}
	default:
		panic("source: no rule to decode into " + dst.Type().String())
	}
}

// setScalar sets a text, a number or a boolean, if v is one as dst expects.
func setScalar(v *Value, dst reflect.Value) (expected string, ok bool) {
	switch dst.Kind() {
	case reflect.String:
		var s string
		if s, ok = v.Any.(string); ok {
			dst.SetString(s)
		}
		return "a string", ok
	case reflect.Float64:
		var f float64
		if f, ok = v.Float(); ok {
			dst.SetFloat(f)
		}
		return "a number", ok
	case reflect.Bool:
		var b bool
		if b, ok = v.Bool(); ok {
			dst.SetBool(b)
		}
		return "a boolean", ok
	}
	n, ok := v.Int()
	if ok {
		dst.SetInt(n)
	}
	return "an integer", ok
}

// Int reads an integer, or a string of digits.
func (v *Value) Int() (int64, bool) {
	switch x := v.Any.(type) {
	case int64:
		return x, true
	case string:
		n, err := strconv.ParseInt(strings.TrimSpace(x), 10, 64)
		return n, err == nil
	}
	return 0, false
}

// Float reads a number, or a string that spells one.
func (v *Value) Float() (float64, bool) {
	switch x := v.Any.(type) {
	case int64:
		return float64(x), true
	case float64:
		return x, true
	case string:
		f, err := strconv.ParseFloat(strings.TrimSpace(x), 64)
		return f, err == nil
	}
	return 0, false
}

// Bool reads a boolean, 0 or 1, or a string such as "yes" or "false".
func (v *Value) Bool() (bool, bool) {
	switch x := v.Any.(type) {
	case bool:
		return x, true
	case int64:
		return x == 1, x == 0 || x == 1
	case string:
		switch strings.ToLower(x) {
		case "true", "yes", "on", "1", "t", "y":
			return true, true
		case "false", "no", "off", "0", "f", "n":
			return false, true
		}
	}
	return false, false
}

// Describe names the type and the value of v, for messages.
func (v *Value) Describe() string {
	switch x := v.Any.(type) {
	case string:
		return fmt.Sprintf("the string %q", x)
	case []*Value, *Table:
		return "a " + v.Kind()
	case float64:
		return "the float " + floatText(x)
	}
	word, _ := v.Word()
	return "the " + v.Kind() + " " + word
}

// Shown is the value of v, for messages that say what it must be: 0, the float 2.0, "two",
// a list.
func (v *Value) Shown() string {
	switch x := v.Any.(type) {
	case string:
		return strconv.Quote(x)
	case []*Value, *Table, float64:
		return v.Describe()
	}
	word, _ := v.Word()
	return word
}

// floatText writes a float so that it cannot be read as an integer.
func floatText(x float64) string {
	s := strconv.FormatFloat(x, 'g', -1, 64)
	if strings.ContainsAny(s, ".einE") {
		return s
	}
	return s + ".0"
}

// Integer is the hint for a value that must be an integer: how a whole float is written as
// one, "" for anything else.
func (v *Value) Integer(key string) string {
	if x, ok := v.Any.(float64); ok && x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		return fmt.Sprintf("write %s%d, without a point", key, int64(x))
	}
	return ""
}

// retyped is how a value of the wrong type is written as one of the right type, "" if
// that is not known.
func retyped(v *Value, expected, path string) string {
	key := path[strings.LastIndexByte(path, '.')+1:] + " = "
	if strings.HasSuffix(path, "]") {
		key = ""
	}
	word, scalar := v.Word()
	switch _, text := v.Any.(string); {
	case expected == "a string" && scalar:
		return "strings need quotes: " + key + quoted(word)
	case expected == "a list" && text:
		return "write " + key + "[" + quoted(word) + "]"
	case expected == "a list" && scalar:
		return "write " + key + "[" + word + "]"
	case expected == "an integer":
		return v.Integer(key)
	case expected == "a boolean":
		return "write " + key + "true or " + key + "false"
	case expected == "a table" && key != "":
		return "write its keys under the header of a table, or " + key + "{ KEY = VALUE }"
	}
	return ""
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func within(path string) string {
	if path == "" {
		return ""
	}
	return " in [" + path + "]"
}
