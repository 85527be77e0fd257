package result

// JobEnd is what the files of a run say about its job's end. Slurm's state is in the
// record.
type JobEnd struct {
	// Script is the exit code of the job's script as it stands in the sentinel, before
	// phases and results were judged; nil without a sentinel.
	Script *int
	// Judged is the exit code that the job took for a failed phase or an invalid result,
	// which other checks report; 0 for neither. For says which of the two.
	Judged int
	For    string
	// Source is the program whose word the record has of Slurm, such as sacct. The record
	// of a job that Slurm has forgotten repeats the sentinel.
	Source string
	// Local is how a job of this machine ended, in Slurm's words; nil for others.
	Local *Slurm
}

// FromSentinel is the Source of a record that repeats the sentinel.
const FromSentinel = "sentinel"

// JobFailed reports whether the run itself failed, in contrast to a run that ended as
// planned but whose result is invalid.
func (r *Result) JobFailed() bool {
	if r.Status == Failed || r.Status == Cancelled {
		return true
	}
	if r.Validity == nil {
		return false
	}
	for _, word := range []string{"job-state", "phase-failed", "role-died"} {
		if c := r.Validity.Check(word); c != nil && c.Outcome == Fail {
			return true
		}
	}
	return false
}

// IsOpen reports whether nothing is known yet of how the run ended; so it is of a run without a
// record, nil.
func (r *Result) IsOpen() bool { return r == nil || r.Status == Unknown }

// IsGood reports whether the result is what was asked for: it is valid, or its run ended with
// those that it accompanied, when all that was asked for is what it had measured by then.
func (r *Result) IsGood() bool {
	return r.Status == Ended || r.Validity != nil && r.Validity.Valid
}
