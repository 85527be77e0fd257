package dataset

import (
	"errors"
	"fmt"
)

// A holding bounds what prompts of a file take of memory until they are sent, in tokens of 4 bytes.
type holding struct{ left, most int }

// mostHeld is 1 GiB. Mooncake's trace of 23,608 requests with 200 million tokens needs half of that.
const mostHeld = 1 << 28

// What is held beside tokens, as so many of them.
const (
	heldRequest = 32
	heldBlock   = 32 // an entry in a map, and its key
)

// errHeld is that the prompts of a file do not fit into memory.
var errHeld = errors.New("the prompts are too large")

// holding returns an empty one.
func (s *Source) holding() *holding {
	if s.most > 0 {
		return &holding{s.most, s.most}
	}
	return &holding{mostHeld, mostHeld}
}

// add counts tokens.
func (h *holding) add(tokens int) error {
	if h.left -= tokens; h.left < 0 {
		return fmt.Errorf("%w: they take more than %d MiB of memory", errHeld, h.most>>18)
	}
	return nil
}

// fewer adds to an error of [holding.add] how many requests fit, if any do. i is the request at which
// it occurred.
func fewer(err error, i int) error {
	if i == 0 || !errors.Is(err, errHeld) {
		return err
	}
	return fmt.Errorf("%w: set --num-prompts to %d or less", err, i)
}
