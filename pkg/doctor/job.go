package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/config"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/regular"
)

// jobScript runs in the shared folder. Its arguments are more options of srun and
// the command that prints a probe.
const jobScript = `#!/bin/bash
# Written by profllm doctor.
uname -m > arch
srun --nodes=1 --ntasks=1 --mpi=none --input=none "$@" > probe 2> errors
echo $? > code
`

// node looks at a node of the partition in a job that is over within minutes.
func (d *Doctor) node(ctx context.Context) {
	switch {
	case !d.Job:
		d.add("a node", NotChecked, "no job was submitted", "--job submits a job of a few seconds")
		return
	case d.local == nil || !d.local.Folder.Writable || len(d.config) == 0:
		d.add("a node", NotChecked, "no job can be submitted now", "")
		return
	}
	dir, err := os.MkdirTemp(d.local.Folder.Path, ".profllm-doctor-")
	if err != nil {
		d.add("a node", Bad, err.Error(), "")
		return
	}
	defer os.RemoveAll(dir)
	token := filepath.Base(dir)
	for name, text := range map[string]string{tokenFile: token, "job.sh": jobScript} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			d.add("a node", Bad, err.Error(), "")
			return
		}
	}
	begin := d.Now()
	if !d.submit(ctx, dir) {
		return
	}
	d.judge(dir, token, begin)
}

var jobNumber = lazyregexp.New(`^(\d+)(?:;\S+)?$`)

// submit runs the job to its end, and cancels it if that takes too long. It
// reports whether the job ran.
func (d *Doctor) submit(ctx context.Context, dir string) bool {
	argv := append(d.sbatch(dir), filepath.Join(dir, "job.sh"))
	if d.System != nil {
		argv = append(argv, d.System.ExtraSrunArgs...)
	}
	argv = append(append(argv, d.Node...), "--dir", dir)
	a := d.command(ctx, argv...)
	lines := strings.Split(strings.TrimSpace(a.out), "\n")
	m := jobNumber.FindStringSubmatch(strings.TrimSpace(lines[len(lines)-1]))
	if a.err != nil || m == nil {
		d.add("a job", Bad, cmp.Or(a.why(), "sbatch: "+oneLine(a.out)),
			"account, partition, QOS or reservation may be wrong: "+strings.Join(argv, " "))
		return false
	}
	id := m[1]
	d.Log("job %s checks a node", id)
	begin := time.Now()
	started := time.Duration(0)
	for {
		state, reason := d.state(ctx, id)
		waited := time.Since(begin)
		switch {
		case state == "":
			d.add("a job", OK,
				fmt.Sprintf("job %s in partition %s was over after %s", id, d.Partition, seconds(waited)), "")
			return true
		case state != "PENDING" && state != "CONFIGURING" && started == 0:
			started = waited
		}
		pending := started == 0 && waited > d.limits.start
		if pending || started > 0 && waited-started > d.limits.job || ctx.Err() != nil {
			return d.cancel(id, state, reason, pending)
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(time.Second, d.limits.start/10)):
		}
	}
}

// cancel ends a job that takes too long.
func (d *Doctor) cancel(id, state, reason string, pending bool) bool {
	a := d.command(context.Background(), "scancel", id)
	seen := fmt.Sprintf("job %s was cancelled in state %s", id, state)
	if a.err != nil {
		seen = fmt.Sprintf("job %s is %s, and could not be cancelled: %s", id, state, a.why())
	}
	if pending {
		d.add("a job", Warn, fmt.Sprintf("%s: not started in %s, reason %s", seen, d.limits.start, reason),
			"the partition may be busy: try again, or name another partition with --partition")
	} else {
		d.add("a job", Bad, fmt.Sprintf("%s: it should take seconds", seen),
			"check the prolog and the shared folder on the node")
	}
	d.add("a node", NotChecked, "no job ran to its end", "")
	return false
}

// state is squeue's word for a job and the reason why it waits; "" when it is
// over. A squeue that fails says nothing, and the job counts as running.
func (d *Doctor) state(ctx context.Context, id string) (state, reason string) {
	a := d.command(ctx, "squeue", "-h", "-a", "-j", id, "-o", "%T|%r")
	if strings.Contains(a.errors, "Invalid job id") {
		return "", ""
	}
	if a.err != nil {
		return "UNKNOWN", a.why()
	}
	state, reason, _ = strings.Cut(strings.TrimSpace(a.out), "|")
	return state, reason
}

// sbatch is the submission, as the system file has it for every job.
func (d *Doctor) sbatch(dir string) []string {
	argv := []string{
		"sbatch", "--parsable", "--job-name=profllm-doctor", "--nodes=1", "--ntasks=1", "--time=2", "--chdir=" + dir,
		"--output=" + filepath.Join(dir, "out"), "--partition=" + d.Partition,
	}
	s := d.System
	if s == nil {
		return argv
	}
	for _, o := range []struct{ name, value string }{
		{"account", s.Account}, {"qos", s.QOS}, {"reservation", s.Reservation}, {"constraint", s.Constraint},
	} {
		if o.value != "" {
			argv = append(argv, "--"+o.name+"="+o.value)
		}
	}
	if s.GPUDirectives() && s.GPUsPerNode > 0 {
		argv = append(argv, "--gres=gpu:1")
	}
	for _, line := range s.ExtraSbatchArgs {
		if words, err := config.SplitWords(line); err == nil {
			argv = append(argv, words...)
		}
	}
	return argv
}

// judge reads what the job left.
func (d *Doctor) judge(dir, token string, begin time.Time) {
	read := func(name string) string {
		data, err := regular.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(data))
	}
	for end := time.Now().Add(d.limits.file); read("code") == "" && time.Now().Before(end); {
		time.Sleep(min(100*time.Millisecond, d.limits.file/10)) // this machine may see it late
	}
	seen := d.Now()
	if read("arch") == "" {
		d.add("node: output folder", Bad, "the job left nothing in "+filepath.Dir(dir),
			"the nodes do not see this folder: set output_path to a shared folder")
		return
	}
	p, err := parseProbe(read("probe"))
	if err != nil {
		d.add("node: profllm runs", Bad,
			fmt.Sprintf("on %s: exit code %s: %s", read("arch"), cmp.Or(read("code"), "unknown"),
				notStarted(read("errors"))),
			"set binary in the system file to a profllm that nodes see, built for their architecture")
		return
	}
	d.add("node: profllm runs", OK, fmt.Sprintf("version %s on %s, %s", p.Version, p.Host, p.Arch), "")
	if p.Folder.Token == token {
		d.folder("node: output folder", p.Folder)
	} else {
		d.add("node: output folder", Bad, fmt.Sprintf("on the node, %s has different content", p.Folder.Path),
			"the nodes have their own folder of that name: set output_path to a shared folder")
	}
	d.clock(p.Time, begin, seen)
	d.free("node: /dev/shm", p.Shm, wantShm,
		"NCCL and engines keep queues there: enlarge the mount, or shrink the queues")
	d.memlock("node: locked memory", p, "extra_srun_args = \"--propagate=NONE\", or LimitMEMLOCK=infinity for slurmd")
	d.ports("node: ports", p)
	d.temp("node: temporary folder", p)
	d.nvidia("node: GPUs", p)
	d.reader("node: GPU reader", p)
	d.proxy("node: proxy variables", p)
	d.nodeRuntimes(p.Programs)
}

// notStarted is the line of srun that says why a step did not run.
func notStarted(text string) string {
	lines := strings.Split(text, "\n")
	i := slices.IndexFunc(lines,
		func(l string) bool { return strings.Contains(l, "execve") || strings.Contains(l, "error") })
	return oneLine(lines[max(i, 0)])
}

// clock compares the node's time with the two of this machine between which it
// was read.
func (d *Doctor) clock(node, before, after time.Time) {
	apart := max(before.Sub(node), node.Sub(after), 0)
	within := after.Sub(before)
	switch {
	case apart > 2*time.Second:
		d.add("node: clock", Warn,
			"differs from this machine by at least "+strconv.FormatFloat(apart.Seconds(), 'f', 1, 64)+" s",
			"times of a run come from several machines: synchronize their clocks")
	default:
		d.add("node: clock", OK, "no difference detected within "+seconds(within), "")
	}
}
