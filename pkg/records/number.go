package records

import (
	"regexp"
	"strconv"
)

// WithoutPoint is what is said of a point without its number, with which the names of
// its phases and its folders begin (3/bench never ended), so that points of which the same is
// said can be found. What is no number leaves the text as it is.
func WithoutPoint(text, number string) string {
	if _, err := strconv.Atoi(number); err != nil {
		return text
	}
	return regexp.MustCompile(`(^|[ ;(])`+number+`/([A-Za-z])`).ReplaceAllString(text, "$1$2")
}
