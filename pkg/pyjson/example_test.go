package pyjson_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/profllm/profllm/pkg/pyjson"
)

// A client's file with a word that only Python writes, and a list that is not needed.
func Example() {
	const file = `{
	"ttfts": [0.05, 0.06, 0.07],
	"goodput": NaN
}`
	r := pyjson.NewReader(strings.NewReader(file))
	err := r.Object(func(key string) error {
		if key == "ttfts" {
			return r.Skip()
		}
		v, err := r.Value()
		if err != nil {
			return err
		}
		_, finite := v.Finite()
		fmt.Printf("%s is %v, finite %t, at %d:%d\n", key, v.Num, finite, v.Line, v.Col)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// goodput is NaN, finite false, at 3:13
}
