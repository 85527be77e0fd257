package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var fromCronBlock = regexp.MustCompile("(?s)```(crontab|ini)\n(.*?)```")

// fromCron returns the crontab and the units of the page, on folders of a test.
func fromCron(t *testing.T, c *cronJob) (crontab string, units []string) {
	t.Helper()
	page, err := os.ReadFile(docs + "/how-to/from-cron.md")
	require.NoError(t, err)
	require.NoError(t, os.Symlink(binary, filepath.Join(c.slurm, "profllm")))
	copyFile(t, "../../scenarios/demo.toml", filepath.Join(c.dir, "qwen.toml"))
	text := strings.NewReplacer("/shared/bin", c.slurm, "/shared/lab", c.dir).Replace(string(page))
	for _, m := range fromCronBlock.FindAllStringSubmatch(text, -1) {
		if m[1] == "crontab" {
			crontab = m[2]
		} else {
			units = append(units, m[2])
		}
	}
	return crontab, units
}

// The page's line runs with what cron gives a command, and nothing else.
func TestFromCronLine(t *testing.T) {
	t.Parallel()
	c := newCronJob(t)
	crontab, _ := fromCron(t, c)
	argv := []string{"-i", "HOME=" + t.TempDir(), "LOGNAME=bench", "SHELL=/bin/sh"}
	ran := 0
	for line := range strings.Lines(crontab) {
		line = strings.TrimSpace(line)
		fields := strings.Fields(line)
		if name, _, ok := strings.Cut(fields[0], "="); ok && name != "" {
			argv = append(argv, line)
			continue
		}
		require.NotContains(t, line, "%", "cron makes it an end of line")
		command := strings.TrimSpace(strings.TrimPrefix(line, strings.Join(fields[:5], " ")))
		for _, jobs := range []int{2, 2} { // the second call finds the jobs of the first
			out, err := exec.Command("env", append(argv, "/bin/sh", "-c", command)...).CombinedOutput()
			require.NoError(t, err, string(out))
			require.Empty(t, string(out), "cron mails only news")
			require.Len(t, c.jobs(), jobs)
			ran++
		}
	}
	require.Equal(t, 2, ran)
}

// systemd takes the page's units.
func TestFromCronUnits(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("no systemd-analyze here")
	}
	c := newCronJob(t)
	_, units := fromCron(t, c)
	require.Len(t, units, 2)
	dir := t.TempDir()
	service, timer := filepath.Join(dir, "profllm-nightly.service"), filepath.Join(dir, "profllm-nightly.timer")
	require.NoError(t, os.WriteFile(service, []byte(units[0]), 0o644))
	require.NoError(t, os.WriteFile(timer, []byte(units[1]), 0o644))
	mail := filepath.Join(dir, "profllm-mail.service")
	require.NoError(t, os.WriteFile(mail, []byte("[Service]\nType=oneshot\nExecStart=/bin/true\n"), 0o644))
	out, err := exec.Command("systemd-analyze", "verify", "--man=no", service, timer, mail).CombinedOutput()
	require.NoError(t, err, string(out))
	for line := range strings.Lines(string(out)) {
		require.NotContains(t, line, "profllm", "a complaint about our units")
	}
	calendar := regexp.MustCompile(`OnCalendar=(.*)`).FindStringSubmatch(units[1])
	out, err = exec.Command("systemd-analyze", "calendar", calendar[1]).CombinedOutput()
	require.NoError(t, err, string(out))
}
