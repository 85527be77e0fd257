package records

import (
	"regexp"
	"strconv"
)

// WithoutStep is what is said of a point without the number of its own, with which the names of
// its phases and its folders begin (3/bench never ended), so that points of which the same is
// said can be found. A step that is no number leaves the text as it is.
func WithoutStep(text, step string) string {
	if _, err := strconv.Atoi(step); err != nil {
		return text
	}
	return regexp.MustCompile(`(^|[ ;(])`+step+`/([A-Za-z])`).ReplaceAllString(text, "$1$2")
}
