package container

import "regexp"

// ecrHost is a private registry of Amazon: ACCOUNT.dkr.ecr.REGION.amazonaws.com, its FIPS
// endpoint, and the one in China.
var ecrHost = regexp.MustCompile(`^\d{12}\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$`)

// ECRRegion is the region of an image's registry, if that is a private registry of Amazon. The
// region stands in the host's name, and is never guessed.
func ECRRegion(image string) (region string, ok bool) {
	r, err := ParseReference(image)
	if err != nil {
		return "", false
	}
	m := ecrHost.FindStringSubmatch(r.Registry)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// login is shell text that logs a runtime in to Amazon's registry. The password, which is good
// for twelve hours, goes from one program to the other and is on no command line. If that
// fails, the credentials that are there must do.
const login = `{ set -o pipefail; aws ecr get-login-password --region "$LOGIN_REGION" | ` +
	`"$LOGIN_PROGRAM" login --username AWS --password-stdin "$LOGIN_HOST" >/dev/null; } || ` +
	`echo "profllm: cannot log in to $LOGIN_HOST; trying the credentials that are there" >&2`

// Login is the command that logs a runtime in to the registry of an image before it is pulled;
// nil for every registry but Amazon's: those use the credentials that are there.
func Login(program, image string) []string {
	text := loginText(program, image)
	if text == "" {
		return nil
	}
	return inShell(text)
}

// loginText is shell text that does the same, "" for nothing. No part of a name that
// ParseReference and ecrHost accept is special in a shell.
func loginText(program, image string) string {
	region, ok := ECRRegion(image)
	if !ok {
		return ""
	}
	r, err := ParseReference(image)
	if err != nil {
		return ""
	}
	return "LOGIN_PROGRAM=" + program + " LOGIN_REGION=" + region + " LOGIN_HOST=" + r.Registry + "; " + login
}
