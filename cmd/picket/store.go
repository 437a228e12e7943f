package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/filestore"
)

// schemes are what openStore understands, for the message about one that it does not.
const schemes = "file:///absolute/directory or redis://host:port/db (see picket help stores)"

// store is an opened store and what the command line wants to know of it beside.
type store struct {
	picket.Store
	name    string                             // what a user may read: without passwords
	id      string                             // the same for everybody who means the same store
	chosen  bool                               // by the user, not by default
	export  string                             // replaces PICKET_STORE for the command, which may have another working directory
	told    bool                               // the user knows that it is the default
	inherit func(key string) (*os.File, error) // the descriptor that holds a lock, for a child; nil if the store has none
	advice  func(error) string                 // what to do about an error, or ""; nil if the store's own words always do
}

// open opens the store of the flags, of the environment or the default, in this order.
func (p *program) open() (*store, error) {
	src, err := p.source()
	if err != nil {
		return nil, err
	}
	if src.url != "" {
		return p.openStore(src)
	}
	dir, err := stateDir()
	if err != nil {
		return nil, err
	}
	return openFiles(dir, false)
}

func (p *program) openStore(src source) (*store, error) {
	if scheme, _, found := strings.Cut(src.url, "://"); found && slices.Contains(redisSchemes, scheme) {
		return p.openRedis(src)
	}
	if p.redisPrefix != "" {
		return nil, exitf(exitUsage, "--redis-prefix is for a store in Redis, and %s names another", src.name)
	}
	u, err := url.Parse(src.url)
	if err != nil {
		// The text of err repeats the URL, which may hold a password.
		return nil, exitf(exitUsage, "%s is not a URL; possible is %s", src.name, schemes)
	}
	switch u.Scheme {
	case "file":
		dir, opts, err := fileURL(u)
		if err != nil {
			return nil, exitf(exitUsage, "%s %q: %s", src.name, redacted(u), err)
		}
		st, err := openFiles(dir, true, opts...)
		if err == nil && src.name == storeVariable && u.Opaque != "" {
			st.export = st.name
			if u.RawQuery != "" {
				st.export += "?" + u.RawQuery
			}
		}
		return st, err
	case "":
		return nil, exitf(exitUsage, "%s has no scheme; possible is %s", src.name, schemes)
	}
	return nil, exitf(exitUsage, "%s: scheme %q is unknown; possible is %s", src.name, u.Scheme, schemes)
}

// refusal is the exitError of what the store, or the library, answered.
func (s *store) refusal(err error) error {
	return refusal(err, s.name, s.explain)
}

// explain is what err says with what to do, in the words of the command line if it has some.
func (s *store) explain(err error) string {
	if s.advice != nil {
		if text := s.advice(err); text != "" {
			return text
		}
	}
	return explain(err)
}

// redacted is u without what may be a password.
func redacted(u *url.URL) string {
	text := *u
	text.User, text.Fragment, text.RawFragment = nil, "", ""
	if u.RawQuery != "" && u.RawQuery != networkFS {
		text.RawQuery = "..."
	}
	return text.String()
}

// networkFS is the parameter that accepts a directory on a network file system.
const networkFS = "network-fs"

// fileURL returns the directory of file:///dir, file:/dir or file:dir, which is relative to the working directory, and the store's options.
func fileURL(u *url.URL) (dir string, opts []filestore.Option, err error) {
	if u.Host != "" && u.Host != "localhost" {
		return "", nil, fmt.Errorf("%q is read as a host; an absolute directory takes three slashes: file:///%s%s", u.Host, u.Host, u.Path)
	}
	switch {
	case u.RawQuery == networkFS:
		opts = append(opts, filestore.WithNetworkFS())
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return "", nil, fmt.Errorf("?%s is the only parameter of a file store; write ? and # in a name as %%3F and %%23", networkFS)
	}
	dir = u.Path
	if u.Opaque != "" {
		if dir, err = url.PathUnescape(u.Opaque); err != nil {
			return "", nil, err
		}
	}
	if dir == "" {
		return "", nil, fmt.Errorf("the directory is missing; possible is %s", schemes)
	}
	if runtime.GOOS == "windows" { // file:///C:/dir has the path /C:/dir
		if cut := strings.TrimPrefix(dir, "/"); filepath.VolumeName(cut) != "" {
			dir = cut
		}
	}
	dir, err = filepath.Abs(filepath.FromSlash(dir))
	return dir, opts, err
}

// stateDir is where the XDG base directory specification wants what must outlive a session but not a move to another machine. A relative
// $XDG_STATE_HOME is to be ignored, says the specification.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "picket"), nil
	}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "picket"), nil
	}
	return "", exitf(exitUsage, "no store: neither XDG_STATE_HOME nor HOME is set; say where, such as --store file:///var/lib/picket")
}

func openFiles(dir string, chosen bool, opts ...filestore.Option) (*store, error) {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(dir)}
	name := u.String()
	files, err := filestore.New(dir, opts...)
	if err != nil {
		return nil, refusal(err, name, explain)
	}
	u.Path = filepath.ToSlash(realPath(dir))
	return &store{Store: files, name: name, id: u.String(), chosen: chosen, inherit: files.File}, nil
}

// realPath is dir without symbolic links, as far as it exists: the first lock makes the rest.
func realPath(dir string) string {
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		return real
	}
	parent, name := filepath.Split(filepath.Clean(dir))
	if parent = filepath.Clean(parent); name == "" || parent == dir {
		return dir
	}
	return filepath.Join(realPath(parent), name)
}
