package container

import "github.com/profllm/profllm/pkg/lazyregexp"

// ecrHost is a private registry of Amazon: ACCOUNT.dkr.ecr.REGION.amazonaws.com, its FIPS
// endpoint, and the one in China.
var ecrHost = lazyregexp.New(`^\d{12}\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$`)

// ecrRegion is the region of an image's registry, if that is a private registry of Amazon. The
// region stands in the host's name, and is never guessed.
func ecrRegion(image string) (region string, ok bool) {
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

// login is a function of a shell that logs a runtime in to Amazon's registry: PROGRAM REGION HOST.
// The password, which is good for twelve hours, goes from one program to the other and is on no
// command line. Neither program may take more than a minute. In the foreground, both stay in the
// process group of the shell, so that who ends the group ends them.
const login = `login() {
set -o pipefail
local limited=(timeout --foreground --kill-after=5 60)
"${limited[@]}" aws ecr get-login-password --region "$2" |
"${limited[@]}" "$1" login --username AWS --password-stdin "$3" >/dev/null && return
echo "profllm: cannot log in to $3: aws or $1 failed, or took more than 60 s" >&2
return 1
}
`

// Login is the command that logs a runtime in to the registry of an image whose pull failed; nil
// for every registry but Amazon's: those use the credentials that are there.
func Login(program, image string) []string {
	args := loginArgs(image)
	if args == nil {
		return nil
	}
	return inShell(login+`login "$@"`, append([]string{program}, args...)...)
}

// loginArgs are the region and the host of an image's registry, nil for every registry but Amazon's.
func loginArgs(image string) []string {
	region, ok := ecrRegion(image)
	if !ok {
		return nil
	}
	r, err := ParseReference(image)
	if err != nil {
		return nil
	}
	return []string{region, r.Registry}
}
