package format_test

import "github.com/profllm/profllm/pkg/report/reporttest"

// numbers is what a record measured; the other fixtures have short names as well.
type numbers = reporttest.Numbers

const root = reporttest.Root

var (
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
	recordOf    = reporttest.Record
	runsOf      = reporttest.Runs
	slowed      = reporttest.Slow
	stepAt      = reporttest.Step
	suspected   = reporttest.Suspect
	toJSON      = reporttest.JSON
	trace       = reporttest.Trace
	turns       = reporttest.Turns
	writePlan   = reporttest.WritePlan
	writeRecord = reporttest.WriteRecord
)
