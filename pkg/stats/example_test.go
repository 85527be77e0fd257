package stats_test

import (
	"errors"
	"fmt"
	"log"

	"github.com/profllm/profllm/pkg/stats"
)

// Two builds, six runs each: is the second faster, and by how much?
func Example() {
	old := []float64{1000, 1012, 995, 1004, 989, 1008}
	now := []float64{1041, 1029, 1052, 1033, 1047, 1038}
	test, err := stats.MannWhitney(old, now)
	if err != nil {
		log.Fatal(err)
	}
	shift, err := stats.HodgesLehmann(old, now)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%+.1f tok/s [%+.1f, %+.1f], p %.4f\n", shift.Estimate, shift.Interval.Low, shift.Interval.High, test.P)

	_, err = stats.MannWhitney(old[:1], now[:1])
	var few *stats.TooFewError
	fmt.Println(errors.As(err, &few), err)
	// Output:
	// +38.5 tok/s [+26.0, +52.0], p 0.0022
	// true too little data: a Mann-Whitney test needs 4, have 1
}
