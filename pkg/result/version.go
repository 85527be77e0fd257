package result

import "strings"

// SameVersion reports whether two texts name one version. A leading v says nothing;
// 0.11.0 and 0.11.0+cu128 are the same, because the local part (PEP 440) is how a
// version was built, and who leaves it out does not say; 0.11.0+cu126 and
// 0.11.0+cu128 are not.
func SameVersion(a, b string) bool {
	publicA, localA := cutVersion(a)
	publicB, localB := cutVersion(b)
	return publicA == publicB && (localA == localB || localA == "" || localB == "")
}

// HasVersion reports whether a version is the wanted one, or begins with it: 0.11.2
// has 0.11.
func HasVersion(version, planned string) bool {
	if SameVersion(version, planned) {
		return true
	}
	public, _ := cutVersion(version)
	prefix, local := cutVersion(planned)
	return local == "" && prefix != "" && strings.HasPrefix(public, prefix+".")
}

// plainVersion is a version without a leading v.
func plainVersion(version string) string {
	public, local := cutVersion(version)
	if local == "" {
		return public
	}
	return public + "+" + local
}

func cutVersion(version string) (public, local string) {
	public, local, _ = strings.Cut(strings.ToLower(strings.TrimSpace(version)), "+")
	if rest, ok := strings.CutPrefix(public, "v"); ok && rest != "" && rest[0] >= '0' && rest[0] <= '9' {
		public = rest
	}
	return public, local
}

// CommonVersion is the version that all of a list name, the one that says most; ""
// if they differ or none is named.
func CommonVersion(list []string) string {
	common := ""
	for _, v := range list {
		if v == "" {
			continue
		}
		if common != "" && !SameVersion(common, v) {
			return ""
		}
		if len(v) > len(common) {
			common = v
		}
	}
	return common
}
