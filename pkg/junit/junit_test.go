package junit_test

import (
	"bytes"
	"encoding/xml"
	"io"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/junit"
)

// element is what Ant's schema (windyroad/JUnit-Schema, JUnit.xsd) and that of
// Jenkins' xunit plugin (junit-10.xsd) both allow: the attributes, all of them
// required, and the children in their order.
type element struct {
	attributes map[string]string // by name; a pattern
	children   []string          // "?" behind a name: at most one, "*": any number
	text       bool
}

const number, some, whatever = `^\d+$`, `^\S(.*\S)?$`, `^(?s).*$`

var schema = map[string]element{
	"testsuites": {nil, []string{"testsuite*"}, false},
	"testsuite": {map[string]string{
		"name": some, "package": whatever, "id": number, "timestamp": `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$`, "hostname": some,
		"tests": number, "failures": number, "errors": number, "skipped": number, "time": number,
	}, []string{"properties", "testcase*", "system-out", "system-err"}, false},
	"properties": {nil, []string{"property*"}, false},
	"property":   {map[string]string{"name": some, "value": whatever}, nil, false},
	"testcase":   {map[string]string{"name": some, "classname": some, "time": number}, []string{"skipped?", "error?", "failure?"}, false},
	"skipped":    {map[string]string{"type": some, "message": whatever}, nil, true},
	"error":      {map[string]string{"type": some, "message": whatever}, nil, true},
	"failure":    {map[string]string{"type": some, "message": whatever}, nil, true},
	"system-out": {nil, nil, true},
	"system-err": {nil, nil, true},
}

type node struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []node     `xml:",any"`
	Text     string     `xml:",chardata"`
}

func (n node) attr(name string) string {
	for _, a := range n.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// check holds a document against the schema, and its counts against its cases.
func check(t *testing.T, n node) {
	t.Helper()
	name := n.XMLName.Local
	e, ok := schema[name]
	require.True(t, ok, name)
	require.Len(t, n.Attrs, len(e.attributes), name)
	for _, a := range n.Attrs {
		require.Regexp(t, regexp.MustCompile(e.attributes[a.Name.Local]), a.Value, "%s %s", name, a.Name.Local)
	}
	if !e.text {
		require.Regexp(t, `^\s*$`, n.Text, name)
	}
	rest := n.Children
	for _, want := range e.children {
		child, many := want, want[len(want)-1]
		if many == '?' || many == '*' {
			child = want[:len(want)-1]
		}
		seen := 0
		for len(rest) > 0 && rest[0].XMLName.Local == child {
			check(t, rest[0])
			rest, seen = rest[1:], seen+1
		}
		switch many {
		case '*':
		case '?':
			require.LessOrEqual(t, seen, 1, "%s in %s", child, name)
		default:
			require.Equal(t, 1, seen, "%s in %s", child, name)
		}
	}
	require.Empty(t, rest, name)
	if name == "testcase" {
		require.LessOrEqual(t, len(n.Children), 1)
	}
	if name == "testsuite" {
		count := map[string]int{}
		for _, c := range n.Children {
			count[c.XMLName.Local]++
			for _, d := range c.Children {
				count[d.XMLName.Local]++
			}
		}
		for attr, of := range map[string]string{"tests": "testcase", "failures": "failure", "errors": "error",
			"skipped": "skipped"} {
			require.Equal(t, strconv.Itoa(count[of]), n.attr(attr), attr)
		}
	}
}

func parse(t *testing.T, data []byte) node {
	t.Helper()
	var n node
	d := xml.NewDecoder(bytes.NewReader(data))
	require.NoError(t, d.Decode(&n))
	_, err := d.Token()
	for err == nil {
		_, err = d.Token()
	}
	require.ErrorIs(t, err, io.EOF)
	return n
}

// covers: PL-I2
func TestWrite(t *testing.T) {
	for name, list := range map[string][]junit.Suite{
		"none":     nil,
		"no cases": {{Name: "a"}},
		"no names": {{Cases: []junit.Case{{Outcome: junit.Failed}, {Outcome: junit.Passed}}}},
		"all": {
			{Name: "compare a", Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("x", 3600)), Properties: [][2]string{{"simulated", "true"}}, Cases: []junit.Case{
				{Class: "a", Name: "p", Outcome: junit.Passed},
				{Class: "a", Name: "f", Outcome: junit.Failed, Type: "regressed", Message: `<"&'>`, Text: "a\nb ]]> \x1b[31m\x00"},
				{Class: "a", Name: "b", Outcome: junit.Broken}, {Class: "a", Name: "s", Outcome: junit.Skipped},
			}},
			{Name: "b", Cases: []junit.Case{{Class: "b", Name: "s", Outcome: junit.Skipped}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			require.NoError(t, junit.Write(&out, list))
			n := parse(t, out.Bytes())
			require.Equal(t, "testsuites", n.XMLName.Local)
			require.Len(t, n.Children, len(list))
			check(t, n)
			if name == "all" {
				s := n.Children[0]
				require.Equal(t, "2026-01-02T02:04:05", s.attr("timestamp"))
				f := s.Children[2].Children[0]
				require.Equal(t, `<"&'>`, f.attr("message"))
				require.Equal(t, "a\nb ]]> \uFFFD[31m\uFFFD", f.Text)
				require.Equal(t, "1", n.Children[1].attr("id"))
			}
		})
	}
}
