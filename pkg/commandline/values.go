package commandline

import (
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/profllm/profllm/pkg/source"
)

// Values lets flags and arguments refuse a value in plain words, instead of kong's. Negative
// numbers need no "=", a number of the type percent may end in %, and a duration of the type limit
// is above 0.
func Values() kong.Option {
	r := kong.NewRegistry().RegisterDefaults()
	number := func(kind reflect.Kind, what string, set func(target reflect.Value, text string) error) {
		r.RegisterKind(kind, numberMapper(what, set))
	}
	number(reflect.Int, "a whole number", setInt(bits.UintSize))
	number(reflect.Int64, "a whole number", setInt(64))
	number(reflect.Float64, "a number", setFloat)
	of := func(v any) kong.Mapper { return r.ForType(reflect.TypeOf(v)) }
	r.RegisterKind(reflect.String, choiceMapper{presentMapper{of("")}})
	r.RegisterKind(reflect.Bool, boolMapper{of(false)})
	r.RegisterKind(reflect.Slice, presentMapper{of([]string{})})
	r.RegisterKind(reflect.Map, pairMapper{presentMapper{of(map[string]string{})}})
	return kong.OptionFunc(func(k *kong.Kong) error {
		list := []kong.Option{
			kong.TypeMapper(reflect.TypeOf(time.Duration(0)),
				numberMapper("a duration, such as 30s, 5m or 1h30m", setDuration)),
			kong.NamedMapper("limit", numberMapper("a duration above 0, such as 30s, 5m or 1h30m", setLimit)),
			kong.NamedMapper("percent", numberMapper("a number in percent", setPercent)),
		}
		for _, v := range []any{0, int64(0), 0.0, "", false, []string{}, map[string]string{}} {
			list = append(list, kong.KindMapper(reflect.TypeOf(v).Kind(), of(v)))
		}
		for _, name := range []string{"path", "existingfile", "existingdir"} {
			list = append(list, kong.NamedMapper(name, presentMapper{r.ForNamedType(name, reflect.TypeOf(""))}))
		}
		for _, o := range list {
			if err := o.Apply(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// missing is the error of a flag without its value, nil if a value follows.
func missing(scan *kong.Scanner) error {
	switch t := scan.Peek(); {
	case t.IsValue():
		return nil
	case t.IsEOL():
		return errors.New("the value is missing")
	default:
		return fmt.Errorf("the value is missing before %s; a value that begins with a dash follows =", t)
	}
}

func wrongValue(want, have string) error { return fmt.Errorf("must be %s, not %q", want, have) }

// numberMapper reads one word, which may begin with a minus sign.
func numberMapper(what string, set func(target reflect.Value, text string) error) kong.MapperFunc {
	return func(ctx *kong.DecodeContext, target reflect.Value) error {
		text := fmt.Sprint(ctx.Scan.Peek().Value)
		if err := missing(ctx.Scan); err != nil && !negative(text) {
			return err
		}
		ctx.Scan.Pop()
		if target.Kind() == reflect.Pointer {
			target = target.Elem()
		}
		switch err := set(target, text); {
		case errors.Is(err, strconv.ErrRange):
			return fmt.Errorf("%s is out of range", text)
		case err != nil:
			return wrongValue(what, text)
		}
		return nil
	}
}

// negative reports whether a word is a negative number and no flag.
func negative(word string) bool {
	rest, ok := strings.CutPrefix(word, "-")
	return ok && rest != "" && strings.ContainsRune("0123456789.", rune(rest[0]))
}

func setInt(size int) func(reflect.Value, string) error {
	return func(target reflect.Value, text string) error {
		n, err := strconv.ParseInt(text, 0, size)
		target.SetInt(n)
		return err
	}
}

func setFloat(target reflect.Value, text string) error {
	n, err := strconv.ParseFloat(text, 64)
	target.SetFloat(n)
	return err
}

func setPercent(target reflect.Value, text string) error {
	return setFloat(target, strings.TrimSpace(strings.TrimSuffix(text, "%")))
}

func setDuration(target reflect.Value, text string) error {
	d, err := time.ParseDuration(text)
	target.SetInt(int64(d))
	return err
}

func setLimit(target reflect.Value, text string) error {
	if err := setDuration(target, text); err != nil || target.Int() > 0 {
		return err
	}
	return errors.New("not above 0")
}

// presentMapper refuses a missing value, and leaves the rest to another mapper.
type presentMapper struct{ kong.Mapper }

// Decode implements [kong.Mapper].
func (m presentMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	if ctx.Value.Flag != nil {
		if err := missing(ctx.Scan); err != nil {
			return err
		}
	}
	return m.Mapper.Decode(ctx, target)
}

// choiceMapper refuses a word that is none of the choices.
type choiceMapper struct{ kong.Mapper }

// Decode implements [kong.Mapper].
func (m choiceMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	if err := m.Mapper.Decode(ctx, target); err != nil || ctx.Value.Enum == "" {
		return err
	}
	choices := ctx.Value.EnumSlice()
	if slices.Contains(choices, target.String()) {
		return nil
	}
	return &choiceError{choices: slices.DeleteFunc(choices, func(s string) bool { return s == "" }),
		have: target.String()}
}

// choiceError is a word that is none of the choices.
type choiceError struct {
	choices []string
	have    string
}

func (e *choiceError) Error() string {
	last := len(e.choices) - 1
	want := e.choices[last]
	if last > 0 {
		want = strings.Join(e.choices[:last], ", ") + " or " + want
	}
	return wrongValue(want, e.have).Error()
}

// hint names what was probably meant: a flag of the command, or one of the choices.
func (e *choiceError) hint(node *kong.Node) string {
	if flag := findFlag(node, "--"+e.have); flag != nil {
		return "use " + usage(flag)
	}
	if near := source.Nearest(e.have, e.choices); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return ""
}

// boolMapper reads --flag=true and --flag=false.
type boolMapper struct{ kong.Mapper }

// IsBool implements [kong.BoolMapper].
func (boolMapper) IsBool() bool { return true }

// Decode implements [kong.Mapper].
func (m boolMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	t := ctx.Scan.Peek()
	if err := m.Mapper.Decode(ctx, target); err != nil {
		return wrongValue("true or false", fmt.Sprint(t.Value))
	}
	return nil
}

// pairMapper reads KEY=VALUE.
type pairMapper struct{ kong.Mapper }

// Decode implements [kong.Mapper].
func (m pairMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	t := ctx.Scan.Peek()
	if t.IsValue() && !strings.Contains(t.String(), "=") {
		return wrongValue("KEY=VALUE", t.String())
	}
	return m.Mapper.Decode(ctx, target)
}
