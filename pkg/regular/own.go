package regular

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// In a folder that users share, such as /tmp, another user can take any name first. So a name there
// stands for several: base+ext, and, if another user has taken it, base-2+ext, base-3+ext and so on. A file
// counts only if this user owns it and no other user can write it. The folder must not let others rename
// it, see checkShared.

// OwnDir returns a folder that only this user can use, below a folder that users share. It makes
// the folder if it is missing.
func OwnDir(shared, base string) (string, error) {
	for {
		path, exists, err := ownPath(shared, base, "", fs.ModeDir)
		if exists || err != nil {
			return path, err
		}
		if err = os.Mkdir(path, 0o700); !errors.Is(err, fs.ErrExist) {
			return path, err
		}
	}
}

// OwnFile returns the path of a file that only this user can write, in a folder that users share, and
// whether it exists. One that does not must be made with O_EXCL or by a rename.
func OwnFile(shared, base, ext string) (path string, exists bool, err error) {
	return ownPath(shared, base, ext, 0)
}

// FindOwnDir is OwnDir for a reader: it makes no folder. If the folder is missing, it returns a path below which
// no file can exist.
func FindOwnDir(shared, base string) (string, error) {
	path, exists, err := ownPath(shared, base, "", fs.ModeDir)
	if !exists {
		path = os.DevNull
	}
	return path, err
}

// ownPath returns the name that this user owns, or else the first free one.
func ownPath(shared, base, ext string, kind fs.FileMode) (path string, exists bool, err error) {
	if err := checkShared(shared); err != nil {
		return "", false, err
	}
	entries, err := os.ReadDir(shared)
	if err != nil {
		return "", false, err
	}
	name := func(n int) string {
		if n == 1 {
			return base + ext
		}
		return fmt.Sprintf("%s-%d%s", base, n, ext)
	}
	own := 0 // the smallest number of a name that this user owns
	for _, e := range entries {
		n := 1
		if e.Name() != name(1) {
			word, _ := strings.CutPrefix(e.Name(), base+"-")
			if n, err = strconv.Atoi(strings.TrimSuffix(word, ext)); err != nil || n < 2 || e.Name() != name(n) {
				continue
			}
		}
		if info, err := e.Info(); err == nil && isOwn(info, kind) && (own == 0 || n < own) {
			own = n
		}
	}
	if own > 0 {
		return filepath.Join(shared, name(own)), true, nil
	}
	for n := 1; ; n++ {
		path := filepath.Join(shared, name(n))
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return path, false, nil
		case err != nil:
			return "", false, err
		case isOwn(info, kind): // made meanwhile
			return path, true, nil
		}
	}
}

// The kernel shows this owner for root's files in a container with a single user.
const overflowUID = 65534

// checkShared refuses a folder if another user could replace this user's files there. Only this user is in the
// group with the user's own number.
func checkShared(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner, group := owners(info)
	others := fs.FileMode(0o022)
	if group == os.Geteuid() {
		others = 0o002
	}
	sticky := info.Mode()&fs.ModeSticky != 0
	if owner != 0 && owner != os.Geteuid() && (owner != overflowUID || !sticky) || info.Mode().Perm()&others != 0 && !sticky {
		return fmt.Errorf("other users could replace the files of user %d in %s, a folder of user %d with mode %v\n\t"+
			"hint: name a folder of this user or of root, with the sticky bit (chmod +t) where others write in it",
			os.Geteuid(), dir, owner, info.Mode())
	}
	return nil
}

// CheckOwnDir refuses a folder if another user can write in it or replace it.
func CheckOwnDir(path string) error {
	if err := checkShared(filepath.Dir(path)); err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err == nil && !isOwn(info, fs.ModeDir) {
		err = fmt.Errorf("%s is no folder in which user %d alone can write: it belongs to user %d and has mode %v",
			path, os.Geteuid(), Owner(info), info.Mode())
	}
	return err
}

// isOwn reports whether this user alone can write a file or folder.
func isOwn(info fs.FileInfo, kind fs.FileMode) bool {
	return info.Mode().Type() == kind && info.Mode().Perm()&0o022 == 0 && Owner(info) == os.Geteuid()
}

// Owner is the UID of a file's owner, -1 if it is unknown.
func Owner(info fs.FileInfo) int {
	user, _ := owners(info)
	return user
}

func owners(info fs.FileInfo) (user, group int) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid), int(st.Gid)
	}
	return -1, -1
}

// CheckOwner refuses a file of a user other than root and this one, and one that others could replace.
func CheckOwner(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if owner := Owner(info); owner != 0 && owner != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d", path, owner)
	}
	return checkShared(filepath.Dir(path))
}

// OpenOf opens a regular file that belongs to a user. It follows no link.
func OpenOf(user int, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = &fs.PathError{Op: "open", Path: path, Err: notRegular("link, a pipe or a device")}
	case Owner(info) != user:
		err = fmt.Errorf("%s belongs to user %d, not to user %d", path, Owner(info), user)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Lock waits until no other process of this user has the lock of a name in a folder that users share.
// No other user can open it. The kernel takes it from a process that dies.
func Lock(ctx context.Context, shared, base string) (release func(), err error) {
	for {
		f, err := openLock(shared, base)
		if err != nil {
			return nil, err
		}
		if err := flock(ctx, f); err != nil {
			f.Close()
			return nil, err
		}
		if isNamed(f) {
			return func() {
				os.Remove(f.Name()) // who waits sees that the name is gone, and makes it anew
				f.Close()
			}, nil
		}
		f.Close()
	}
}

// openLock opens the file of a lock, or makes it.
func openLock(shared, base string) (*os.File, error) {
	for {
		path, exists, err := ownPath(shared, base, ".lock", 0)
		if err != nil {
			return nil, err
		}
		flags := os.O_RDONLY | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
		if !exists {
			flags |= os.O_CREATE | os.O_EXCL
		}
		f, err := os.OpenFile(path, flags, 0o600)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// flock waits for the lock of an open file.
func flock(ctx context.Context, f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("another process holds %s: %w", f.Name(), ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// isNamed reports whether an open file is still the one of its name.
func isNamed(f *os.File) bool {
	own, err := f.Stat()
	named, nameErr := os.Lstat(f.Name())
	return err == nil && nameErr == nil && os.SameFile(own, named)
}
