package arguments

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// A Release is a program in one release of vLLM: the options that it has.
type Release struct {
	Version string
	program *Program
	options []option
	names   map[string]int // every spelling → its place in options
}

// An option is one of a release, as its parser knows it.
type option struct {
	Form
	names []string // each with its dashes; the first is the full one
	whole *option  // of one member of a JSON object (--x.member): the option that takes all of it
}

// load fills the release in. Most commands need one release or none.
func (r *Release) load() *Release {
	loading.Lock()
	defer loading.Unlock()
	if r.names != nil {
		return r
	}
	r.names = map[string]int{}
	for _, o := range r.program.Options() {
		for _, f := range o.Forms {
			if r.program.lacking[o.Name] || !within(r.Version, f.Since, f.Until) {
				continue
			}
			for _, name := range f.spellings(o.Name) {
				r.names[name] = len(r.options)
			}
			r.options = append(r.options, option{Form: f, names: f.spellings(o.Name)})
		}
	}
	return r
}

var loading sync.Mutex

// Newest is the newest release of the catalogue.
func (p *Program) Newest() *Release {
	list := p.releases()
	return list[len(list)-1].load()
}

// Oldest is the oldest release of the catalogue.
func (p *Program) Oldest() *Release { return p.releases()[0].load() }

// Nightly is the version of a build that is newer than every release.
const Nightly = "nightly"

// At returns the releases that a version can mean: that of the same number; all that begin with
// it ("0.11"); or the neighbours of one that the catalogue lacks, which has been between them. A
// newer one than all gives the newest, with newer. Nothing is returned for an older one than
// all, and for what is no version.
func (p *Program) At(version string) (list []*Release, newer bool) {
	number := versionNumber.FindString(version)
	switch {
	case version == Nightly:
		return []*Release{p.Newest()}, true
	case number == "":
		return nil, false
	}
	all := p.releases()
	for _, r := range all {
		if r.is(number) {
			list = append(list, r.load())
		}
	}
	if list != nil {
		return list, false
	}
	after := slices.IndexFunc(all, func(r *Release) bool { return compare(r.Version, number) > 0 })
	switch after {
	case -1:
		return []*Release{p.Newest()}, true
	case 0:
		return nil, false
	}
	return []*Release{all[after-1].load(), all[after].load()}, false
}

// Nearest is the release of the catalogue that a version means or comes closest to, "" if there
// is none.
func (p *Program) Nearest(version string) string {
	list, _ := p.At(version)
	if len(list) == 0 {
		return ""
	}
	return list[len(list)-1].Version
}

// Before reports whether version a is older than version b, by their numbers.
func Before(a, b string) bool { return compare(a, b) < 0 }

// Declared is the version that a test says its vLLM has: by engine_version, or by the tag of an
// official image; "" if it does not. A nightly build is newer than every release.
func Declared(engineVersion, image string) string {
	if engineVersion != "" {
		return engineVersion
	}
	tag := officialImage.FindStringSubmatch(image)
	switch {
	case tag == nil:
		return ""
	case tag[2] != "":
		return Nightly
	}
	return tag[1]
}

// officialImage is an image of the vLLM project, whose tag is a version.
var officialImage = lazyregexp.New(`(?:^|[/#+])vllm-openai(?:-[a-z0-9]+)?[:+](?:v?(\d+\.\d+\.\d+)|(nightly))`)

// is reports whether a version, or the beginning of one, is that of the release.
func (r *Release) is(version string) bool {
	number := versionNumber.FindString(version)
	return r.Version == number || strings.HasPrefix(r.Version, number+".")
}

var versionNumber = lazyregexp.New(`\d+(\.\d+)+`)

// within reports whether a version is one of those from since to before until, "" for no end.
func within(version, since, until string) bool {
	return compare(since, version) <= 0 && (until == "" || compare(until, version) > 0)
}

// compare orders versions by their numbers.
func compare(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(as), len(bs)) {
		x, _ := strconv.Atoi(as[i])
		y, _ := strconv.Atoi(bs[i])
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(as), len(bs))
}
