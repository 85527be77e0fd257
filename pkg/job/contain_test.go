package job_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/job"
)

// standIn is a runtime that notes its arguments, one line for each call, and then
// does as body says. The real docker and podman are run by cmd/profllm's tests.
func standIn(t *testing.T, name, body string) (calls string, contain func(ctx context.Context, c job.Contain,
	environ ...string) (int, string, error)) {
	t.Helper()
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	script := "#!/bin/bash\n{ printf '%q ' \"$@\"; echo; } >>" + calls + "\n" + body + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	tmp := t.TempDir()
	return calls, func(ctx context.Context, c job.Contain, environ ...string) (int, string, error) {
		env := map[string]string{"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "3", "SLURM_PROCID": "1", "HOME": "/home/u",
			"TMPDIR": tmp}
		for _, kv := range environ {
			name, value, _ := strings.Cut(kv, "=")
			env[name] = value
		}
		out, err := os.CreateTemp(dir, "out-") // a file, as in a job: a pipe would be waited for
		require.NoError(t, err)
		defer out.Close()
		j := &job.Job{Env: func(name string) string { return env[name] }, Stdout: out, Stderr: out, Now: time.Now}
		c.Runtime, c.Step = name, "serve"
		code, err := j.RunContain(ctx, c,
			append([]string{"PATH=" + os.Getenv("PATH"), "RUNS=" + os.Getenv("RUNS")}, environ...))
		left, globErr := filepath.Glob(tmp + "/*")
		require.NoError(t, globErr)
		require.Empty(t, left, "no scratch folder is left")
		said, readErr := os.ReadFile(out.Name())
		require.NoError(t, readErr)
		return code, string(said), err
	}
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	var list []string
	for _, l := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		list = append(list, strings.TrimSpace(l))
	}
	return list
}

// covers: PL-G14, CTR-10, SIG-3
func TestContainDocker(t *testing.T) {
	calls, contain := standIn(t, "docker", `case $1 in run) exit 7;; esac`)
	code, _, err := contain(t.Context(),
		job.Contain{Args: []string{"--rm", "host/x:1", "vllm", "a b"}, MountHome: true, Run: "see_1a2b"})
	require.NoError(t, err)
	require.Equal(t, 7, code)
	require.Equal(t, []string{
		`run --name=profllm-4711-3-serve-1 --label=profllm.job=4711 --label=profllm.run=see_1a2b --volume=/home/u:/home/u --env=HOME --rm host/x:1 vllm a\ b`,
		"kill profllm-4711-3-serve-1", "rm --force --volumes profllm-4711-3-serve-1",
	}, lines(t, calls))
}

// A job that is queued again has the same step numbers: a container that an attempt before left on
// the node is removed first, by its name.
//
// covers: SIG-6
func TestContainOfARestart(t *testing.T) {
	for restarts, want := range map[string]int{"0": 0, "1": 2} {
		calls, contain := standIn(t, "docker", "")
		_, _, err := contain(t.Context(), job.Contain{Args: []string{"image"}}, "SLURM_RESTART_COUNT="+restarts)
		require.NoError(t, err)
		list := lines(t, calls)
		require.True(t, strings.HasPrefix(list[want], "run --name=profllm-4711-3-serve-1 "), list)
		if want > 0 {
			require.Equal(t, []string{"kill profllm-4711-3-serve-1", "rm --force --volumes profllm-4711-3-serve-1"}, list[:want])
		}
	}
}

// interrupted ends once a stand-in has made the file $RUNS.
func interrupted(t *testing.T) context.Context {
	file := filepath.Join(t.TempDir(), "runs")
	t.Setenv("RUNS", file)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for ctx.Err() == nil {
			if _, err := os.Stat(file); err == nil {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return ctx
}

// A container of a daemon does not end with its client: it is killed by its name,
// and only by that.
//
// covers: IMG-8, SIG-3, SIG-4
func TestContainStubborn(t *testing.T) {
	calls, contain := standIn(t, "podman", `[[ $1 == run ]] || exit 0
trap '' TERM
touch "$RUNS"
for ((i = 0; i < 600; i++)); do sleep 0.1; done`)
	code, out, err := contain(interrupted(t), job.Contain{Args: []string{"image"}, Grace: 100 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, 137, code)
	require.Contains(t, out, "container profllm-4711-3-serve-1 outlived TERM; killing it")
	require.Equal(t, []string{"kill profllm-4711-3-serve-1", "rm --force --volumes profllm-4711-3-serve-1"},
		lines(t, calls)[1:3])
}

func TestContainPassesTermOn(t *testing.T) {
	_, contain := standIn(t, "podman", `[[ $1 == run ]] || exit 0
trap 'echo flushed; exit 5' TERM
touch "$RUNS"
for ((i = 0; i < 600; i++)); do sleep 0.1; done`)
	code, out, err := contain(interrupted(t), job.Contain{Args: []string{"image"}, Grace: time.Minute})
	require.NoError(t, err)
	require.Equal(t, 5, code)
	require.Contains(t, out, "flushed")
}

// Before -- stand only variables, as before the command of env.
func TestVariables(t *testing.T) {
	for line, want := range map[string][2]string{
		"-- --rm image":           {"", "--rm image"},
		"A=1 B= -- --rm -- image": {"A=1 B=", "--rm -- image"},
		"A=-- -- image":           {"A=--", "image"},
		"image vllm":              {"", "image vllm"},
		"A -- image":              {"refused"}, "=1 -- image": {"refused"}, "--rm=1 -- image": {"refused"},
	} {
		set, args, ok := job.Variables(strings.Fields(line))
		if want[0] == "refused" {
			require.False(t, ok, line)
			continue
		}
		require.True(t, ok, line)
		require.Equal(t, want, [2]string{strings.Join(set, " "), strings.Join(args, " ")}, line)
	}
}

// Variables of a step are set for every runtime, in the place of those that this process has, and
// reach the inside by their names.
//
// covers: CTR-8
func TestContainSetsVariables(t *testing.T) {
	for runtime, want := range map[string]string{
		"docker": `--env=A --env=KEY image vllm$`, "podman": `--env=A --env=KEY image vllm$`,
		"enroot": `--env=NVIDIA_VISIBLE_DEVICES=all --env=A --env=KEY image vllm$`, "apptainer": `exec .* image vllm$`,
	} {
		calls, contain := standIn(t, runtime, `case $1 in run | exec | start) echo "A=$A KEY=$KEY inside=$APPTAINERENV_A" ;; esac`)
		args := []string{"image", "vllm"}
		if runtime == "enroot" {
			args = append([]string{"--env=NVIDIA_VISIBLE_DEVICES=all"}, args...)
		}
		code, out, err := contain(t.Context(), job.Contain{Set: []string{"A=a b=c"}, Names: []string{"KEY"}, Args: args},
			"A=outer", "KEY=k")
		require.NoError(t, err)
		require.Zero(t, code)
		require.Contains(t, out, "A=a b=c KEY=k inside=")
		if runtime == "apptainer" {
			require.Contains(t, out, "inside=a b=c\n")
		}
		require.Regexp(t, want, lines(t, calls)[0])
	}
}

// covers: PL-G6
func TestContainApptainer(t *testing.T) {
	calls, contain := standIn(t, "apptainer", `env | grep ^APPTAINERENV_ | sort
scratch=$(printf '%s\n' "$@" | sed -n 's/^--workdir=//p')
[[ -d $scratch/home/.cache/huggingface && -f $scratch/home/.netrc ]] && echo mount points`)
	file := filepath.Join(t.TempDir(), "netrc")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	code, out, err := contain(t.Context(), job.Contain{Names: []string{"HF_TOKEN", "UNSET"},
		Args: []string{"--contain", "--bind=/hf:/root/.cache/huggingface", "--bind=" + file + ":/root/.netrc:ro",
			"--bind=/dev/shm", "x.sif", "vllm"}},
		"HF_TOKEN=hf_secret=1", "LEAK=1")
	require.NoError(t, err)
	require.Zero(t, code)
	require.Equal(t, "APPTAINERENV_HF_TOKEN=hf_secret=1\nmount points\n", out)
	require.Len(t, lines(t, calls), 1)
	require.Regexp(t, `^exec --workdir=\S+/profllm-4711-3-serve-1-\d+ --home=\S+/home:/root .*--contain .* x.sif vllm$`,
		lines(t, calls)[0])
	require.NotContains(t, lines(t, calls)[0], "hf_secret")

	_, _, err = contain(t.Context(), job.Contain{Args: []string{"x.sif"}, MountHome: true})
	require.NoError(t, err)
	require.Contains(t, lines(t, calls)[1], "--home=/home/u ")
}

func TestContainEnroot(t *testing.T) {
	calls, contain := standIn(t, "enroot", `cat "$3"; sh "$3" echo "a  b"; echo "home=$ENROOT_MOUNT_HOME"`)
	dir := filepath.Join(t.TempDir(), "it's here")
	require.NoError(t, os.Mkdir(dir, 0o755))
	code, out, err := contain(t.Context(), job.Contain{Args: []string{"--root", "x.sqsh", "vllm"}, WorkDir: dir},
		"ENROOT_MOUNT_HOME=y")
	require.NoError(t, err)
	require.Zero(t, code)
	require.Contains(t, out, "\na  b\nhome=n\n", "the script changes the folder and becomes the command")
	require.Regexp(t, `^start --rc \S+/rc --root x.sqsh vllm$`, lines(t, calls)[0])
}

func TestContainNoRuntime(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	j := &job.Job{Env: func(string) string { return "" }, Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{},
		Now: time.Now}
	code, err := j.RunContain(t.Context(), job.Contain{Runtime: "podman", Step: "serve"}, nil)
	require.Equal(t, 127, code)
	require.ErrorContains(t, err, "podman is not on this node's PATH")
}

// TERM to a step reaches the program that shall end, and not the programs that hold its
// image: those ignore it.
func TestContainEnrootIgnoresTERM(t *testing.T) {
	_, contain := standIn(t, "enroot", `kill -TERM $$; echo "outlived"; sed -n '$p' "$3"`)
	code, out, err := contain(t.Context(), job.Contain{Args: []string{"x.sqsh", "vllm"}, Self: "/shared/bin/profllm"})
	require.NoError(t, err)
	require.Zero(t, code)
	require.Equal(t, "outlived\nexec /.profllm job exec --run . -- \"$@\"\n", out)
}

// What enroot's files of lines cannot hold reaches the program as it was: the stand-in
// reads variables and mounts as runtime.sh does, line by line.
func TestContainEnrootLines(t *testing.T) {
	_, contain := standIn(t, "enroot", `for arg; do
  case $arg in
  --env=*) name=${arg#--env=}; value=${!name}
    case $value in *$'\n'* | [\"\'\ ]* | *[\"\'\ ]) echo "a line cannot hold $name"; exit 1 ;; esac ;;
  --mount=*[[:space:]\\\\]*) echo "a line cannot hold $arg"; exit 1 ;;
  --mount=*) IFS=: read -r source target rest <<<"${arg#--mount=}"; [[ -e $source ]] || { echo "no $source"; exit 1; }
    [[ $target == /.profllm-mount-* ]] && echo "inside $target $rest" ;;
  esac
done
sed -i 's/^mkdir -p.*//' "$3" # which would be in the container
sh "$3" printenv -0 KEY LINES EDGE END PLAIN BACK | tr '\0' '|'`)
	dir := filepath.Join(t.TempDir(), "a b")
	require.NoError(t, os.Mkdir(dir, 0o755))
	want := []string{"-----BEGIN KEY-----\nabc\n-----END KEY-----\n", "a\n\nb", `"quoted"`, " space ", "plain", `a\nb`}
	environ := []string{"KEY=" + want[0], "LINES=" + want[1], "EDGE=" + want[2], "END=" + want[3], "PLAIN=" + want[4],
		"BACK=" + want[5]}
	args := []string{"--mount=" + dir + ":/in side:none:x-create=auto,rbind,ro", "--mount=/dev/null:/n:none:rbind"}
	for _, kv := range environ {
		args = append(args, "--env="+kv[:strings.IndexByte(kv, '=')])
	}
	code, out, err := contain(t.Context(), job.Contain{Args: append(args, "x.sqsh", "vllm")}, environ...)
	require.NoError(t, err)
	require.Zero(t, code, out)
	require.Equal(t, "inside /.profllm-mount-0 none:x-create=auto,rbind,ro\n"+strings.Join(want, "|")+"|", out)
}
