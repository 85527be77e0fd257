package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// manPages are the manual pages by file name: one of the program, and one of each command,
// from the same model as commands.md.
func manPages(t *testing.T) map[string]string {
	var c cli
	k, err := newParser(&app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}, &c, func(int) {})
	require.NoError(t, err)
	leaves := k.Model.Leaves(true)
	pages := map[string]string{"profllm.1": programPage(t, k, leaves)}
	for _, leaf := range leaves {
		pages[manName(leaf)+".1"] = commandPage(t, k, leaf, leaves)
	}
	return pages
}

func manName(n *kong.Node) string { return strings.ReplaceAll(n.FullPath(), " ", "-") }

// manual writes roff with the macros of man(7).
type manual struct{ strings.Builder }

var roffEscapes = strings.NewReplacer(
	`\`, `\e`, "-", `\-`, "…", "...", "–", `\(en`, "“", `\(lq`, "”", `\(rq`, "×", `\(mu`,
)

// roff is text as it stands: no line of it is a request.
func roff(text string) string {
	text = roffEscapes.Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

func newManual(name string) *manual {
	m := &manual{}
	m.WriteString(".\\\" Written by go test ./cmd/profllm -run TestReference -update. Do not edit.\n")
	fmt.Fprintf(m, ".TH %s 1 \"\" profllm \"profllm manual\"\n", roff(strings.ToUpper(name)))
	return m
}

func (m *manual) section(name string) { fmt.Fprintf(m, ".SH %s\n", name) }

// text writes sentences, a line each; an empty line of it begins a paragraph.
func (m *manual) text(text string) {
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			m.WriteString(".PP\n")
			continue
		}
		m.WriteString(roff(line) + "\n")
	}
}

// item writes a tagged paragraph.
func (m *manual) item(tag, text string) {
	fmt.Fprintf(m, ".TP\n\\fB%s\\fR\n", roff(tag))
	m.text(text)
}

func (m *manual) seeAlso(names []string) {
	m.section("SEE ALSO")
	for i, name := range names {
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		fmt.Fprintf(m, ".BR %s (1)%s\n", roff(name), end)
	}
}

func programPage(t *testing.T, k *kong.Kong, leaves []*kong.Node) string {
	m := newManual("profllm")
	m.section("NAME")
	m.text("profllm - benchmark LLM serving on Slurm clusters")
	m.section("SYNOPSIS")
	m.WriteString(".B profllm\n\\fICOMMAND\\fR [\\fIargument\\fR ...]\n")
	m.section("DESCRIPTION")
	m.text(k.Model.Help)
	m.section("COMMANDS")
	var names []string
	for _, leaf := range leaves {
		m.item(strings.TrimPrefix(leaf.FullPath(), "profllm "), leaf.Help)
		names = append(names, manName(leaf))
	}
	m.section("OPTIONS OF EVERY COMMAND")
	for _, f := range k.Model.Flags {
		m.item(flagTag(f), flagHelp(f))
	}
	m.section("ENVIRONMENT")
	m.item("PROFLLM_SYSTEM, CLOUDAI_SYSTEM_CONFIG", "The system file, for commands without --system.")
	m.item("NO_COLOR", "If this is not empty, terminals get no colours. TERM=dumb does the same.")
	m.exitStatus(t)
	m.seeAlso(names)
	return m.String()
}

func commandPage(t *testing.T, k *kong.Kong, leaf *kong.Node, leaves []*kong.Node) string {
	m := newManual(manName(leaf))
	m.section("NAME")
	help := strings.TrimSuffix(leaf.Help, ".")
	m.text(manName(leaf) + " - " + strings.ToLower(help[:1]) + help[1:])
	m.section("SYNOPSIS")
	fmt.Fprintf(m, ".B %s\n", roff(leaf.FullPath()))
	if len(leaf.Flags) > 0 {
		m.WriteString("[\\fIoption\\fR ...]\n")
	}
	for _, p := range leaf.Positional {
		m.WriteString(`\fI` + roff(p.Summary()) + "\\fR\n")
	}
	m.section("DESCRIPTION")
	m.text(leaf.Help)
	if leaf.Detail != "" {
		m.WriteString(".PP\n")
		m.text(leaf.Detail)
	}
	if len(leaf.Positional) > 0 {
		m.section("ARGUMENTS")
	}
	for _, p := range leaf.Positional {
		m.item(p.Name, p.Help)
	}
	m.section("OPTIONS")
	for _, f := range slices.Concat(leaf.Flags, k.Model.Flags) {
		if !f.Hidden {
			m.item(flagTag(f), flagHelp(f))
		}
	}
	m.exitStatus(t)
	names := []string{"profllm"}
	for _, other := range leaves {
		if other != leaf && other.Parent == leaf.Parent && leaf.Parent != k.Model.Node {
			names = append(names, manName(other))
		}
	}
	m.seeAlso(names)
	return m.String()
}

// flagTag is a flag with its value.
func flagTag(f *kong.Flag) string {
	if f.Help != "" && f.Enum != "" && f.PlaceHolder == "" {
		if tag := f.String(); f.HasDefault && !f.IsBool() { // the default stands in the text
			name, _, _ := strings.Cut(tag, "=")
			return name + "=" + strings.Trim(strings.ReplaceAll(f.Enum, ",", "|"), "|")
		}
	}
	return f.String()
}

// flagHelp is what a flag does, with its default and the variables that set it.
func flagHelp(f *kong.Flag) string {
	help := strings.ReplaceAll(f.Help, "${enum}", strings.ReplaceAll(strings.Trim(f.Enum, ","), ",", ", "))
	if f.HasDefault && f.Default != "" {
		help += "\nDefault: " + f.Default + "."
	}
	if len(f.Envs) > 0 {
		help += "\nEnvironment: " + strings.Join(f.Envs, ", ") + "."
	}
	return help
}

func (m *manual) exitStatus(t *testing.T) {
	m.section("EXIT STATUS")
	for _, c := range exitCodes(t) {
		m.item(c.code, strings.ToUpper(c.when[:1])+c.when[1:]+".")
	}
}

const manFolder = docs + "/man"

// testManPages: the manual pages are those of the commands, and man shows them without a
// warning. It is part of TestReference.
func testManPages(t *testing.T) {
	pages := manPages(t)
	if *update {
		require.NoError(t, os.RemoveAll(manFolder))
		require.NoError(t, os.MkdirAll(manFolder, 0o755))
		for name, text := range pages {
			require.NoError(t, os.WriteFile(filepath.Join(manFolder, name), []byte(text), 0o644))
		}
	}
	have := map[string]string{}
	files, err := filepath.Glob(filepath.Join(manFolder, "*"))
	require.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		have[filepath.Base(file)] = string(data)
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(pages)), slices.Collect(maps.Keys(have)),
		"pages of %s: make docs", manFolder)
	for name, text := range pages {
		require.True(t, text == have[name], "%s/%s is not current: make docs", manFolder, name)
	}

	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("the pages are current; no groff to show them")
	}
	for _, file := range files {
		shown, err := exec.Command(groff, "-man", "-Tutf8", "-ww", "-rLL=80n", file).CombinedOutput()
		require.NoError(t, err, string(shown))
		require.NotContains(t, string(shown), "warning", file)
		require.NotContains(t, string(shown), "error:", file)
	}
}
