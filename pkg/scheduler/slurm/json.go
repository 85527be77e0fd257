package slurm

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/run"
)

// Slurm's --json changed its shapes with the versions of its data parser. What
// is asked for is text; JSON is understood where a site's squeue or sacct is a
// wrapper that answers in it.

func isJSON(out string) bool { return strings.HasPrefix(strings.TrimLeft(out, " \t\r\n"), "{") }

// stateWord is a job state of any version as squeue would print it: a string
// (21.08 to 23.02), {"current": …} (sacct), a list of a base state and flags
// (23.11 on). What is none of them is "?".
type stateWord string

// UnmarshalJSON implements json.Unmarshaler.
func (w *stateWord) UnmarshalJSON(data []byte) error {
	var word string
	var words []string
	var inner struct{ Current *stateWord }
	*w = "?"
	switch {
	case string(data) == "null":
	case json.Unmarshal(data, &word) == nil:
		*w = stateWord(word)
	case json.Unmarshal(data, &words) == nil:
		*w = stateWord(listed(words))
	case json.Unmarshal(data, &inner) == nil && inner.Current != nil:
		*w = *inner.Current
	}
	return nil
}

// count is a number of any version: 3, "3", or {"set": true, "number": 3}; nil
// where Slurm has none.
type count struct{ n *int64 }

// UnmarshalJSON implements json.Unmarshaler.
func (c *count) UnmarshalJSON(data []byte) error {
	var n int64
	var text string
	var boxed struct {
		Set    bool
		Number *int64
	}
	c.n = nil
	switch {
	case string(data) == "null":
	case json.Unmarshal(data, &n) == nil:
		c.n = &n
	case json.Unmarshal(data, &text) == nil:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			c.n = &n
		}
	case json.Unmarshal(data, &boxed) == nil && boxed.Set:
		c.n = boxed.Number
	}
	return nil
}

func (c count) positive() bool { return c.n != nil && *c.n > 0 }

func (c count) String() string {
	if c.n == nil {
		return ""
	}
	return strconv.FormatInt(*c.n, 10)
}

// jsonJob is a job of squeue, whose keys stand in one row, or of sacct, which
// nests them.
type jsonJob struct {
	JobID      count      `json:"job_id"`
	ArrayJobID count      `json:"array_job_id"`
	ArrayTask  count      `json:"array_task_id"`
	ArrayTasks string     `json:"array_task_string"`
	HetJobID   count      `json:"het_job_id"`
	HetOffset  count      `json:"het_job_offset"`
	QueueState *stateWord `json:"job_state"`
	Reason     string     `json:"state_reason"`
	Nodes      string     `json:"nodes"`
	Name       string     `json:"name"`

	AcctState *stateWord `json:"state"`
	Array     struct {
		JobID count  `json:"job_id"`
		Task  count  `json:"task_id"`
		Tasks string `json:"task"`
	} `json:"array"`
	Het struct {
		JobID  count `json:"job_id"`
		Offset count `json:"job_offset"`
	} `json:"het"`
	Exit exitCode `json:"exit_code"`
	Time struct {
		Start, End, Elapsed count
	} `json:"time"`
}

// exitCode is sacct's, as "code:signal"; squeue's number of 21.08 to 23.02, the
// raw status of wait, is left out, since squeue does not decide.
type exitCode string

// UnmarshalJSON implements json.Unmarshaler.
func (e *exitCode) UnmarshalJSON(data []byte) error {
	var x struct {
		Code   count `json:"return_code"`
		Signal struct {
			Old count `json:"signal_id"`
			New count `json:"id"`
		} `json:"signal"`
	}
	*e = ""
	if json.Unmarshal(data, &x) != nil || x.Code.n == nil {
		return nil
	}
	signal := "0"
	for _, s := range []count{x.Signal.Old, x.Signal.New} {
		if s.positive() {
			signal = s.String()
		}
	}
	*e = exitCode(x.Code.String() + ":" + signal)
	return nil
}

// parseJSON reads `squeue --json` and `sacct --json`. A job that does not fit is
// left out, the others stay.
func parseJSON(out, source string, at time.Time) []job {
	var doc struct{ Jobs []json.RawMessage }
	if json.Unmarshal([]byte(out), &doc) != nil {
		return nil
	}
	var jobs []job
	for _, raw := range doc.Jobs {
		var j jsonJob
		if json.Unmarshal(raw, &j) != nil || !j.JobID.positive() {
			continue
		}
		if r := j.record(source, at); isJob(r.JobID) {
			jobs = append(jobs, r)
		}
	}
	return jobs
}

func (j jsonJob) record(source string, at time.Time) job {
	st := run.State{JobID: j.id(), Raw: "?", Reason: j.Reason, NodeList: j.Nodes, ExitCode: string(j.Exit),
		Source: source, At: at}
	for _, w := range []*stateWord{j.AcctState, j.QueueState} {
		if w != nil {
			st.Raw = string(*w)
		}
	}
	st.State, st.Note = parseState(st.Raw)
	if source == "sacct" {
		st.Start, st.End = j.Time.Start.stamp(), j.Time.End.stamp()
		if e := j.Time.Elapsed; e.positive() && *e.n < 1<<31 {
			st.Elapsed = float64(*e.n)
		}
	}
	return record(j.Name, st)
}

// stamp is a time as sacct prints it; 0 and nothing are "Unknown".
func (c count) stamp() string {
	if !c.positive() || *c.n > 1<<40 {
		return "Unknown"
	}
	return time.Unix(*c.n, 0).Format("2006-01-02T15:04:05")
}

// id is the id as squeue prints it: 60, 60_3, 60_[4-9%2], 12+1.
func (j jsonJob) id() string {
	base, task, tasks := j.ArrayJobID, j.ArrayTask, j.ArrayTasks
	if j.Array.JobID.positive() {
		base, task, tasks = j.Array.JobID, j.Array.Task, j.Array.Tasks
	}
	het, offset := j.HetJobID, j.HetOffset
	if j.Het.JobID.positive() {
		het, offset = j.Het.JobID, j.Het.Offset
	}
	switch {
	case base.positive() && tasks != "":
		return fmt.Sprintf("%s_[%s]", base, strings.Trim(tasks, "[]"))
	case base.positive() && task.n != nil && *task.n >= 0:
		return fmt.Sprintf("%s_%s", base, task)
	case het.positive() && offset.n != nil && *offset.n >= 0:
		return fmt.Sprintf("%s+%s", het, offset)
	}
	return j.JobID.String()
}
