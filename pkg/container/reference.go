package container

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// Reference names an image: in a registry, or, when File is set, in a file.
type Reference struct {
	User     string // of the registry, as enroot writes it: USER@REGISTRY#NAME
	Registry string // "" for the runtime's default
	Name     string
	Tag      string // "" for the runtime's default
	Digest   string // "sha256:…", "" for none
	File     string // a path, absolute or starting with a dot
}

// ParseReference reads REGISTRY/NAME:TAG, pyxis' REGISTRY#NAME:TAG, either with
// docker:// before it, or a path.
func ParseReference(image string) (Reference, error) {
	var r Reference
	switch {
	case image == "":
		return r, errors.New("no image")
	case image[0] == '/', image[0] == '.':
		return Reference{File: image}, nil
	}
	name, _ := strings.CutPrefix(image, "docker://")
	if scheme, _, ok := strings.Cut(name, "://"); ok {
		return r, fmt.Errorf("image %q: %s:// is not a registry (write REGISTRY/NAME:TAG, or the path of a file)",
			image, scheme)
	}
	if registry, rest, ok := strings.Cut(name, "#"); ok {
		r.Registry, name = registry, rest
		if i := strings.LastIndexByte(registry, '@'); i >= 0 {
			r.User, r.Registry = registry[:i], registry[i+1:]
		}
	} else if first, rest, ok := strings.Cut(name, "/"); ok &&
		(first == "localhost" || strings.ContainsAny(first, ".:")) {
		r.Registry, name = first, rest
	}
	name, digest, hasDigest := strings.Cut(name, "@")
	r.Name, r.Digest = name, digest
	hasTag := false
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		r.Name, r.Tag, hasTag = name[:i], name[i+1:], true
	}
	for _, part := range []struct {
		name, text string
		want       bool
		form       *lazyregexp.Regexp
	}{
		{"user", r.User, r.User != "", userForm}, {"registry", r.Registry, r.Registry != "", registryForm},
		{"name", r.Name, true, nameForm}, {"tag", r.Tag, hasTag, tagForm}, {"digest", r.Digest, hasDigest, digestForm},
	} {
		if part.want && !part.form.MatchString(part.text) {
			return r, fmt.Errorf("image %q: its %s cannot be %q", image, part.name, part.text)
		}
	}
	return r, nil
}

// What the parts of a name may be. A shell and a runtime see nothing special in
// them; a user such as $oauthtoken is quoted wherever it is printed.
var (
	userForm     = lazyregexp.New(`^[$A-Za-z0-9_.+@-]+$`)
	registryForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?$`)
	nameForm     = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$`)
	tagForm      = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	digestForm   = lazyregexp.New(`^[a-z0-9]+:[0-9a-fA-F]+$`)
)

func (r Reference) tail() string {
	s := r.Name
	if r.Tag != "" {
		s += ":" + r.Tag
	}
	if r.Digest != "" {
		s += "@" + r.Digest
	}
	return s
}

// Plain is the name as docker, podman and apptainer write it, or the path.
func (r Reference) Plain() string {
	switch {
	case r.File != "":
		return r.File
	case r.Registry != "":
		return r.Registry + "/" + r.tail()
	}
	return r.tail()
}

// Enroot is the name as enroot writes it, or the path. Enroot cannot import by a
// digest (NVIDIA/srt-slurm#385), which is an error.
func (r Reference) Enroot() (string, error) {
	switch {
	case r.File != "":
		return r.File, nil
	case r.Digest != "":
		return "", fmt.Errorf("image %q: enroot imports by tag, not by digest (write the tag alone; the digest of the imported file is recorded)", r.Plain())
	case r.Registry == "":
		return r.tail(), nil
	case r.User != "":
		return r.User + "@" + r.Registry + "#" + r.tail(), nil
	}
	return r.Registry + "#" + r.tail(), nil
}

// CacheName is the file below install_path that holds an image, with an extension
// such as ".sqsh". It is CloudAI's name, so that either tool finds what the other
// imported, but for a registry's port, which CloudAI takes for a tag, and for
// characters that a path should not have.
func CacheName(image, ext string) string {
	name, local := image, false
	if _, rest, ok := strings.Cut(image, "://"); ok {
		name = rest
	}
	tag := "notag"
	if i := strings.LastIndexByte(name, ':'); i >= 0 && !strings.ContainsAny(name[i:], "/#") {
		name, tag = name[:i], name[i+1:]
	}
	if local = strings.HasPrefix(name, "/") || strings.HasPrefix(name, "."); local {
		name = path.Base(name)
	} else if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[:i] + "__" + name[i+1:]
	}
	file := strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' ||
			strings.ContainsRune("._:@+=-", r)) {
			return r
		}
		return '_'
	}, name+"__"+tag)
	if ext != ".sqsh" {
		file = strings.ReplaceAll(file, ":", "_") // docker-archive:PATH:NAME
	}
	file = strings.Trim(file, "_")
	if strings.HasPrefix(file, ".") || strings.HasPrefix(file, "-") {
		file = "image" + file
	}
	return file + ext
}
