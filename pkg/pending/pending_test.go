package pending_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/pending"
)

var all = []pending.Class{pending.Waits, pending.Held, pending.Never, pending.Ended}

// Slurm 22.05 has 197 reasons, and later versions add more; each has one class.
//
// covers: PL-S14
func TestEveryReasonHasOneClass(t *testing.T) {
	seen := map[string]pending.Class{}
	for _, class := range all {
		pattern := regexp.MustCompile(pending.Pattern(class))
		for _, name := range pending.Names(class) {
			require.NotContains(t, seen, name)
			seen[name] = class
			require.Equal(t, class, pending.Of(name), name)
			require.Regexp(t, pattern, "8|PENDING|"+name+"|")
		}
	}
	require.Greater(t, len(seen), 197)
}

// covers: PL-S14
func TestOf(t *testing.T) {
	for reason, want := range map[string]pending.Class{
		"Priority": pending.Waits, "Resources": pending.Waits, "Dependency": pending.Waits, "(BeginTime)": pending.Waits, "PartitionDown": pending.Waits,
		"ReqNodeNotAvail, UnavailableNodes:node1": pending.Waits, "ReqNodeNotAvail,_UnavailableNodes:node1": pending.Waits,
		"QOSGrpNodeLimit": pending.Waits, "QOSMaxJobsPerUserLimit": pending.Waits, "MaxGRESPerAccount": pending.Waits, "MpiPortsBusy": pending.Waits,
		"QOSMaxNodePerJobLimit": pending.Never, "QOSMaxGRESPerJob": pending.Never, "AssocMaxMemPerNode": pending.Never, "QOSMinGRES": pending.Never,
		"MaxMemPerLimit": pending.Never, "InvalidQOS": pending.Never, "DependencyNeverSatisfied": pending.Never, "PartitionConfig": pending.Never,
		"JobHeldUser": pending.Held, "JobHoldMaxRequeue": pending.Held, "ReservationDeleted": pending.Held,
		"launch failed requeued held": pending.Held, "launch_failed_requeued_held": pending.Held, "launch failure limit exceeded requeued held": pending.Held,
		"job requeued in held state": pending.Held, "job requeued in special exit state": pending.Held,
		"TimeLimit": pending.Ended, "NonZeroExitCode": pending.Ended,
		"": pending.Unknown, "None": pending.Unknown, "Whatever Slurm 30 says": pending.Unknown, "PriorityX": pending.Unknown,
	} {
		require.Equal(t, want, pending.Of(reason), reason)
	}
}

func FuzzOf(f *testing.F) {
	f.Add("ReqNodeNotAvail, UnavailableNodes:node1")
	f.Fuzz(func(t *testing.T, reason string) {
		require.Contains(t, append(all, pending.Unknown), pending.Of(reason))
	})
}

// covers: PL-S14
func TestMend(t *testing.T) {
	for reason, want := range map[string]string{
		"PartitionTimeLimit": "lower time_limit", "QOSMaxWallDurationPerJobLimit": "lower time_limit",
		"AssocMaxCpuMinutesPerJobLimit": "lower time_limit or request less",
		"PartitionNodeLimit":            "request fewer nodes", "QOSMaxNodePerJobLimit": "request fewer nodes",
		"QOSMaxGRESPerJob": "request fewer GPUs", "AssocMaxMemPerNode": "request less memory",
		"QOSMinGRES": "request at least what the QOS demands", "InvalidAccount": "correct the account",
		"InvalidQOS": "correct the QOS", "(BadConstraints)": "request what nodes of the partition have",
		"DependencyNeverSatisfied": "correct the run that the job waits for",
	} {
		require.Equal(t, want, pending.Mend(reason), reason)
	}
	for _, reason := range pending.Names(pending.Never) {
		require.NotEmpty(t, pending.Mend(reason))
	}
}

// Only what the ends of other jobs do not bring is missing.
//
// covers: PL-S14
func TestMissing(t *testing.T) {
	for reason, want := range map[string]string{
		"ReqNodeNotAvail, UnavailableNodes:node1": "nodes that are down or drained", "NodeDown": "nodes that are down or drained",
		"ReqNodeNotAvail,_UnavailableNodes:node1": "nodes that are down or drained",
		"PartitionDown": "a partition that is down", "(PartitionInactive)": "a partition that is down",
		"AssocGrpGRESMinutes": "a budget that is used up", "AssocGrpCPUMinutesLimit": "a budget that is used up",
		"QOSGrpNodeMinutes": "a budget that is used up",
		"Priority":          "", "Resources": "", "ReqNodeNotAvail, May be reserved for other job": "",
		"ReqNodeNotAvail, UnavailableNodes:": "", "AssocGrpCPURunMinutesLimit": "", "QOSGrpGRESRunMinutes": "", "": "",
	} {
		what, look := pending.Missing(reason)
		require.Equal(t, want, what, reason)
		require.Equal(t, want == "", look == "", reason)
	}
}
