// Package junit writes verdicts as JUnit XML, which every CI server reads. It holds
// what Jenkins' and Ant's schemas have in common, and all that the stricter one
// wants; it reads nothing and knows no benchmark.
//
//	err := junit.Write(os.Stdout, []junit.Suite{{Name: "compare", Time: now, Cases: cases}})
package junit

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"io"
	"time"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/printable"
)

// Suite is what one call judged of one thing.
type Suite struct {
	Name       string
	Time       time.Time // of the newest run; zero: not known
	Properties [][2]string
	Cases      []Case
}

// Case is one verdict.
type Case struct {
	Class   string // the test
	Name    string // the metric
	Outcome Outcome
	Type    string // the verdict in a word, if it is no pass
	Message string // one line
	Text    string // everything that is known
}

// Outcome is what CI servers tell apart.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failure" // it got worse
	Broken  Outcome = "error"   // nothing can be said, and something is to be mended
	Skipped Outcome = "skipped" // nothing can be said yet
)

type suites struct {
	XMLName xml.Name `xml:"testsuites"`
	Suites  []suite  `xml:"testsuite"`
}

type suite struct {
	Name       string     `xml:"name,attr"`
	Package    string     `xml:"package,attr"`
	ID         int        `xml:"id,attr"`
	Timestamp  string     `xml:"timestamp,attr"` // UTC without a zone, as the schema wants it
	Hostname   string     `xml:"hostname,attr"`
	Tests      int        `xml:"tests,attr"`
	Failures   int        `xml:"failures,attr"`
	Errors     int        `xml:"errors,attr"`
	Skipped    int        `xml:"skipped,attr"`
	Time       string     `xml:"time,attr"` // s; nothing is timed
	Properties properties `xml:"properties"`
	Cases      []testcase `xml:"testcase"`
	Out        string     `xml:"system-out"`
	Err        string     `xml:"system-err"`
}

type properties struct {
	List []property `xml:"property"`
}

type property struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type testcase struct {
	Name    string  `xml:"name,attr"`
	Class   string  `xml:"classname,attr"`
	Time    string  `xml:"time,attr"`
	Skipped *detail `xml:"skipped"`
	Error   *detail `xml:"error"`
	Failure *detail `xml:"failure"`
}

type detail struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// File is a file for Write.
func File(path string) durable.Output {
	return durable.Output{Option: "--junit", Path: path, Kind: "a JUnit report of profllm", Ours: is}
}

// is reports whether a file begins as one of Write does.
func is(head []byte) bool {
	rest, ok := bytes.CutPrefix(head, []byte(xml.Header+"<testsuites>"))
	return ok && (bytes.Contains(rest, []byte(` package="`+program+`"`)) ||
		bytes.HasPrefix(rest, []byte("</testsuites>")))
}

// program is the package of every suite.
const program = "profllm"

// Write writes suites as one document. Characters that XML cannot hold become the
// replacement character. The host is localhost, as where it is not known: a verdict
// is of no host.
func Write(w io.Writer, list []Suite) error {
	doc := suites{Suites: make([]suite, len(list))}
	for i, s := range list {
		out := suite{
			Name: cmp.Or(s.Name, "profllm"), Package: program, ID: i, Timestamp: s.Time.UTC().
				Format("2006-01-02T15:04:05"), Hostname: "localhost",
			Tests: len(s.Cases), Time: "0",
		}
		for _, p := range s.Properties {
			out.Properties.List = append(out.Properties.List, property{p[0], p[1]})
		}
		for _, c := range s.Cases {
			t := testcase{Name: cmp.Or(c.Name, "verdict"), Class: cmp.Or(c.Class, s.Name, "profllm"), Time: "0"}
			d := &detail{cmp.Or(c.Type, string(c.Outcome)), c.Message, c.Text}
			switch c.Outcome {
			case Failed:
				out.Failures, t.Failure = out.Failures+1, d
			case Broken:
				out.Errors, t.Error = out.Errors+1, d
			case Skipped:
				out.Skipped, t.Skipped = out.Skipped+1, d
			}
			out.Cases = append(out.Cases, t)
		}
		doc.Suites[i] = out
	}
	w = printable.NewWriter(w)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(doc); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
