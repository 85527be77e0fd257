package report_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/report"
	"github.com/profllm/profllm/pkg/report/format"
	"github.com/profllm/profllm/pkg/report/reporttest"
)

// numbers is what a record measured; the other fixtures have short names as well.
type numbers = reporttest.Numbers

const root = reporttest.Root

var (
	configured  = reporttest.Configured
	confirm     = reporttest.Confirm
	curve       = reporttest.Curve
	diff        = reporttest.Diff
	inTemp      = reporttest.InTemp
	load        = reporttest.Load
	night       = reporttest.Night
	nightsOf    = reporttest.Nights
	noise       = reporttest.Noise
	pair        = reporttest.Pair
	planOf      = reporttest.Plan
	point       = reporttest.Point
	recordOf    = reporttest.Record
	runsOf      = reporttest.Runs
	slowed      = reporttest.Slow
	stepAt      = reporttest.Step
	suspected   = reporttest.Suspect
	trace       = reporttest.Trace
	turns       = reporttest.Turns
	write       = reporttest.Write
	writePlan   = reporttest.WritePlan
	writeRecord = reporttest.WriteRecord
)

// text is the report as text.
func text(t *testing.T, rep *report.Report) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, format.Text(&out, rep))
	return out.String()
}
