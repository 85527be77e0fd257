package container

import "slices"

// Importer makes the file of an image that a launcher starts containers from.
type Importer struct {
	Program   string // on the PATH of the machine that imports
	Extension string // of the file

	command func(r Reference, file string) ([]string, error)
}

// importers are the importers by launcher. A launcher without one needs no file.
var importers = map[string]Importer{
	"pyxis":     {"enroot", ".sqsh", enrootImport},
	"enroot":    {"enroot", ".sqsh", enrootImport},
	"apptainer": {"apptainer", ".sif", apptainerPull},
	"docker":    {"docker", ".tar", dockerSave},
	"podman":    {"podman", ".tar", podmanSave},
}

// ImporterOf is the importer of a launcher; ok is false for a launcher without one.
func ImporterOf(launcher string) (i Importer, ok bool) {
	i, ok = importers[launcher]
	return i, ok
}

// HasExtension reports whether an importer makes files with that extension.
func HasExtension(ext string) bool {
	for _, i := range importers {
		if i.Extension == ext {
			return true
		}
	}
	return false
}

// Command is the command that makes file from an image of a registry. The error says
// why the program cannot import that image.
func (i Importer) Command(r Reference, file string) ([]string, error) { return i.command(r, file) }

func enrootImport(r Reference, file string) ([]string, error) {
	name, err := r.Enroot()
	return []string{"enroot", "import", "-o", file, "docker://" + name}, err
}

func apptainerPull(r Reference, file string) ([]string, error) {
	return []string{"apptainer", "pull", file, "docker://" + r.Plain()}, nil
}

func dockerSave(r Reference, file string) ([]string, error) {
	return pulled("docker", `docker save --output "$2" "$1"`, r, file), nil
}

// podmanSave also prints the digest of the image's manifest.
func podmanSave(r Reference, file string) ([]string, error) {
	return pulled("podman", `podman save --format docker-archive --output "$2" "$1" && `+
		`podman image inspect --format '{{.Digest}}' "$1"`, r, file), nil
}

// pulled is a command that pulls an image and then runs shell text, which has the image as $1 and
// the file as $2. The credentials that are there come first: only if they do not do, a registry
// of Amazon gets a login, which replaces them.
func pulled(program, then string, r Reference, file string) []string {
	pull := program + ` pull "$1"`
	args := loginArgs(r.Plain())
	if args != nil {
		pull = login + pull + " || { login " + program + ` "$3" "$4" && ` + pull + "; }"
	}
	return inShell(pull+" && "+then, append([]string{r.Plain(), file}, args...)...)
}

func inShell(script string, args ...string) []string {
	return slices.Concat([]string{"bash", "-c", script, "stage"}, args)
}
