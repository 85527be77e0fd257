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
	return inShell(loggedIn("docker", r)+`docker pull "$1" && docker save --output "$2" "$1"`, r.Plain(), file), nil
}

// podmanSave also prints the digest of the image's manifest.
func podmanSave(r Reference, file string) ([]string, error) {
	return inShell(loggedIn("podman", r)+`podman pull "$1" && podman save --format docker-archive --output "$2" "$1" && `+
		`podman image inspect --format '{{.Digest}}' "$1"`, r.Plain(), file), nil
}

// loggedIn is shell text that comes before a pull, "" for most registries.
func loggedIn(program string, r Reference) string {
	if text := loginText(program, r.Plain()); text != "" {
		return text + "\n"
	}
	return ""
}

func inShell(script string, args ...string) []string {
	return slices.Concat([]string{"bash", "-c", script, "stage"}, args)
}
