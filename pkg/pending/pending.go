// Package pending says what a reason means that Slurm gives for a job which has not
// started: the job waits, somebody holds it, or it can never start as it is.
//
//	pending.Of("QOSMaxNodePerJobLimit") // pending.Never
package pending

import (
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// Class is what a reason means for the job.
type Class string

// The classes. Ended reasons are those of jobs that are over; Slurm shows them of a job
// that was queued again.
const (
	Unknown Class = ""
	Waits   Class = "waits" // it starts without anybody's doing
	Held    Class = "held"  // somebody has to release it
	Never   Class = "never" // the job, or a limit, has to be changed
	Ended   Class = "ended"
)

// reasons are all that Slurm 22.05 to 26.05 can give: job_reason_string in
// src/common/slurm_protocol_defs.c, later src/common/job_state_reason.c. A limit for a
// job or a node is the job's own request: no end of another job changes it. One for a
// user, an account or a group of jobs is used up and becomes free again.
var reasons = map[Class][]string{
	Held: strings.Fields(`
		BurstBufferOperation JobHeldAdmin JobHeldUser JobHoldMaxRequeue ReservationDeleted ReservationInvalid`),
	Never: strings.Fields(`
		AccountNotAllowed AssocMaxBBMinutesPerJob AssocMaxBBPerJob AssocMaxBBPerNode AssocMaxBillingMinutesPerJob AssocMaxBillingPerJob AssocMaxBillingPerNode
		AssocMaxCpuMinutesPerJobLimit AssocMaxCpuPerJobLimit AssocMaxCpuPerNode AssocMaxEnergyMinutesPerJob AssocMaxEnergyPerJob AssocMaxEnergyPerNode
		AssocMaxGRESMinutesPerJob AssocMaxGRESPerJob AssocMaxGRESPerNode AssocMaxLicenseMinutesPerJob AssocMaxLicensePerJob AssocMaxMemMinutesPerJob
		AssocMaxMemPerJob AssocMaxMemPerNode AssocMaxNodeMinutesPerJob AssocMaxNodePerJobLimit AssocMaxUnknownMinutesPerJob AssocMaxUnknownPerJob
		AssocMaxUnknownPerNode AssocMaxWallDurationPerJobLimit BadConstraints Constraints DependencyNeverSatisfied InvalidAccount InvalidQOS MaxMemPerLimit
		PartitionConfig PartitionNodeLimit PartitionTimeLimit QOSMaxBBPerJob QOSMaxBBPerNode QOSMaxBillingMinutesPerJob QOSMaxBillingPerJob
		QOSMaxBillingPerNode QOSMaxCpuMinutesPerJobLimit QOSMaxCpuPerJobLimit QOSMaxCpuPerNode QOSMaxEnergyMinutesPerJob QOSMaxEnergyPerJob
		QOSMaxEnergyPerNode QOSMaxGRESMinutesPerJob QOSMaxGRESPerJob QOSMaxGRESPerNode QOSMaxLicenseMinutesPerJob QOSMaxLicensePerJob
		QOSMaxMemoryMinutesPerJob QOSMaxMemoryPerJob QOSMaxMemoryPerNode QOSMaxNodeMinutesPerJob QOSMaxNodePerJobLimit QOSMaxUnknownMinutesPerJob
		QOSMaxUnknownPerJob QOSMaxUnknownPerNode QOSMaxWallDurationPerJobLimit QOSMinBB QOSMinBilling QOSMinCpuNotSatisfied QOSMinEnergy QOSMinGRES
		QOSMinLicense QOSMinMemory QOSMinNode QOSMinUnknown QOSNotAllowed`),
	Ended: strings.Fields(`
		DeadLine InactiveLimit JobLaunchFailure NonZeroExitCode OutOfMemory RaisedSignal SystemFailure TimeLimit`),
	Waits: strings.Fields(`
		AccountingPolicy AssocGrpBB AssocGrpBBMinutes AssocGrpBBRunMinutes AssocGrpBilling AssocGrpBillingMinutes AssocGrpBillingRunMinutes
		AssocGrpCPUMinutesLimit AssocGrpCPURunMinutesLimit AssocGrpCpuLimit AssocGrpEnergy AssocGrpEnergyMinutes AssocGrpEnergyRunMinutes AssocGrpGRES
		AssocGrpGRESMinutes AssocGrpGRESRunMinutes AssocGrpJobsLimit AssocGrpLicense AssocGrpLicenseMinutes AssocGrpLicenseRunMinutes AssocGrpMemLimit
		AssocGrpMemMinutes AssocGrpMemRunMinutes AssocGrpNodeLimit AssocGrpNodeMinutes AssocGrpNodeRunMinutes AssocGrpSubmitJobsLimit AssocGrpUnknown
		AssocGrpUnknownMinutes AssocGrpUnknownRunMinutes AssocGrpWallLimit AssocMaxJobsLimit AssocMaxSubmitJobLimit AssociationJobLimit
		AssociationResourceLimit AssociationTimeLimit BeginTime BlockFreeAction BlockMaxError BurstBufferResources BurstBufferStageIn Cleaning Dependency
		FedJobLock FrontEndDown JobArrayTaskLimit Licenses MaxBBPerAccount MaxBBRunMinsPerAccount MaxBBRunMinsPerUser MaxBillingPerAccount
		MaxBillingRunMinsPerAccount MaxBillingRunMinsPerUser MaxCpuPerAccount MaxCpuRunMinsPerAccount MaxCpuRunMinsPerUser MaxEnergyPerAccount
		MaxEnergyRunMinsPerAccount MaxEnergyRunMinsPerUser MaxGRESPerAccount MaxGRESRunMinsPerAccount MaxGRESRunMinsPerUser MaxJobsPerAccount
		MaxLicensePerAccount MaxLicenseRunMinsPerAccount MaxLicenseRunMinsPerUser MaxMemoryPerAccount MaxMemoryRunMinsPerAccount MaxMemoryRunMinsPerUser
		MaxNodePerAccount MaxNodeRunMinsPerAccount MaxNodeRunMinsPerUser MaxPoweredUpNodes MaxSubmitJobsPerAccount MaxUnknownPerAccount
		MaxUnknownRunMinsPerAccount MaxUnknownRunMinsPerUser MpiPortsBusy NodeDown NvidiaImexChannels PartitionDown PartitionInactive PowerNotAvail
		PowerReserved Priority Prolog QOSGrpBB QOSGrpBBMinutes QOSGrpBBRunMinutes QOSGrpBilling QOSGrpBillingMinutes QOSGrpBillingRunMinutes
		QOSGrpCPUMinutesLimit QOSGrpCPURunMinutesLimit QOSGrpCpuLimit QOSGrpEnergy QOSGrpEnergyMinutes QOSGrpEnergyRunMinutes QOSGrpGRES QOSGrpGRESMinutes
		QOSGrpGRESRunMinutes QOSGrpJobsLimit QOSGrpLicense QOSGrpLicenseMinutes QOSGrpLicenseRunMinutes QOSGrpMemLimit QOSGrpMemoryMinutes
		QOSGrpMemoryRunMinutes QOSGrpNodeLimit QOSGrpNodeMinutes QOSGrpNodeRunMinutes QOSGrpSubmitJobsLimit QOSGrpUnknown QOSGrpUnknownMinutes
		QOSGrpUnknownRunMinutes QOSGrpWallLimit QOSJobLimit QOSMaxBBPerUser QOSMaxBillingPerUser QOSMaxCpuPerUserLimit QOSMaxEnergyPerUser QOSMaxGRESPerUser
		QOSMaxJobsPerUserLimit QOSMaxLicensePerUser QOSMaxMemoryPerUser QOSMaxNodePerUserLimit QOSMaxSubmitJobPerUserLimit QOSMaxUnknownPerUser
		QOSResourceLimit QOSTimeLimit QOSUsageThreshold ReqNodeNotAvail Reservation Resources SchedDefer`),
}

// descriptions are parts of Slurm's texts in the place of a reason
// (src/slurmctld/job_mgr.c); scontrol puts underscores for the blanks.
var descriptions = map[Class][]string{
	Held: {"requeued held", "requeued in held state", "requeued in special exit state"},
}

var (
	byName = classes()
	first  = lazyregexp.New(`^\w+`)
)

func classes() map[string]Class {
	all := map[string]Class{}
	for class, names := range reasons {
		for _, name := range names {
			all[name] = class
		}
	}
	return all
}

// Of returns the class of a reason, as squeue, scontrol or slurmrestd print it: what
// follows the first word is details.
func Of(reason string) Class {
	text := strings.ReplaceAll(reason, "_", " ")
	for class, list := range descriptions {
		if slices.ContainsFunc(list, func(d string) bool { return strings.Contains(text, d) }) {
			return class
		}
	}
	return byName[first.FindString(strings.TrimLeft(reason, "( "))]
}

// Pattern is a regular expression that finds the reasons of a class in a line.
func Pattern(class Class) string {
	pattern := `\b(?:` + strings.Join(reasons[class], "|") + `)\b`
	return strings.Join(append([]string{pattern}, descriptions[class]...), "|")
}

// mends are what to change in a request that can never start, by the end of Slurm's reason.
// The first that matches counts.
var mends = []struct {
	reason *lazyregexp.Regexp
	mend   string
}{
	{lazyregexp.New(`^QOSMin`), "request at least what the QOS demands"},
	{lazyregexp.New(`^(InvalidAccount|AccountNotAllowed)`), "correct the account"},
	{lazyregexp.New(`^(InvalidQOS|QOSNotAllowed)`), "correct the QOS"},
	{lazyregexp.New(`^DependencyNever`), "correct the run that the job waits for"},
	{lazyregexp.New(`^PartitionTimeLimit|Wall`), "lower time_limit"},
	{lazyregexp.New(`MinutesPerJob|MinutesPerJobLimit`), "lower time_limit or request less"},
	{lazyregexp.New(`^PartitionNodeLimit|NodePerJob`), "request fewer nodes"},
	{lazyregexp.New(`GRESPer`), "request fewer GPUs"},
	{lazyregexp.New(`Mem(ory)?Per`), "request less memory"},
	{lazyregexp.New(`^(BadConstraints|Constraints|PartitionConfig)`), "request what nodes of the partition have"},
}

// Mend says what to change in the request of a job that can never start, as an instruction.
func Mend(reason string) string {
	name := first.FindString(strings.TrimLeft(reason, "( "))
	for _, m := range mends {
		if m.reason.MatchString(name) {
			return m.mend
		}
	}
	return "correct the request that the reason names, in the scenario or the system file"
}

var (
	unavailable = lazyregexp.New(`UnavailableNodes:\w|^\(?NodeDown\b`)
	partition   = lazyregexp.New(`^\(?Partition(Down|Inactive)\b`)
	budget      = lazyregexp.New(`^\(?((Assoc|QOS)Grp(\w*[^n])?Minutes(Limit)?|QOSUsageThreshold)\b`)
)

// Missing says what a waiting job needs that the ends of other jobs do not give it, and how
// to look at that; "" of jobs that wait their turn.
func Missing(reason string) (what, look string) {
	switch {
	case unavailable.MatchString(reason):
		return "nodes that are down or drained", "sinfo -R says why they are"
	case partition.MatchString(reason):
		return "a partition that is down", "sinfo -s shows the partitions"
	case budget.MatchString(reason):
		return "a budget that is used up", "ask an administrator when it is renewed"
	}
	return "", ""
}
