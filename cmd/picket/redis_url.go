package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// redisURL is what the URL of a Redis store says.
type redisURL struct {
	scheme         string
	user, password string
	addrs          []string // the server, or its Sentinels, or nodes of a Cluster
	master         string   // as its Sentinels call it; "" without Sentinel
	db             int
	params         map[string]string // those of redisParams
}

// The parameters of a URL.
const (
	redisDB          = "db"
	redisCA          = "ca"
	redisCert        = "cert"
	redisKey         = "key"
	sentinelUser     = "sentinel-user"
	sentinelPassword = "sentinel-password"
)

// The schemes of Redis. The first two name a server, the next two Sentinels, the last two nodes of a Cluster.
var redisSchemes = []string{"redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"}

// parseRedis reads redis://[[user]:password@]host[:port][/db], redis+sentinel://[[user]:password@]host[:port],…/master[?db=N] and
// redis+cluster://[[user]:password@]host[:port],…, and all of them with TLS as rediss.
// Its errors repeat no part of the text: what stands in the wrong place may be a password.
func parseRedis(text string) (redisURL, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	r := redisURL{scheme: scheme, params: map[string]string{}}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	login, hosts, found := cutLast(rest[:end], "@")
	if !found {
		login, hosts = "", rest[:end]
	}
	if strings.Contains(rest[end:], "@") {
		return r, errors.New("there is an @ behind the host: in a password write / ? # @ : as %2F %3F %23 %40 %3A")
	}
	// net/url takes one host only.
	u, err := url.Parse("redis://" + login + "@host" + rest[end:])
	if err != nil {
		return r, errors.New("it is not a URL: in a password write / ? # @ : % as %2F %3F %23 %40 %3A %25")
	}
	r.user = u.User.Username()
	r.password, _ = u.User.Password()
	if r.user != "" && r.password == "" {
		return r, errors.New("there is a user without a password: write user:password@, or :password@ for the default user")
	}
	if err := r.parseHosts(hosts); err != nil {
		return r, err
	}
	if err := r.parseParams(u); err != nil {
		return r, err
	}
	return r, r.parsePath(strings.Trim(u.Path, "/"))
}

func (r *redisURL) tls() bool       { return strings.HasPrefix(r.scheme, "rediss") }
func (r *redisURL) sentinel() bool  { return strings.HasSuffix(r.scheme, "+sentinel") }
func (r *redisURL) clustered() bool { return strings.HasSuffix(r.scheme, "+cluster") }

// secret reports whether it holds a password.
func (r *redisURL) secret() bool { return r.password != "" || r.params[sentinelPassword] != "" }

func (r *redisURL) parseHosts(hosts string) error {
	defaultPort := "6379"
	switch {
	case r.sentinel():
		defaultPort = "26379"
	case !r.clustered() && strings.Contains(hosts, ","):
		return errors.New("there are several hosts: write redis+cluster://host,host if they are nodes of a Cluster, redis+sentinel://host,host/master if they are Sentinels")
	}
	for host := range strings.SplitSeq(hosts, ",") {
		u, err := url.Parse("redis://" + host)
		if err != nil || u.Hostname() == "" {
			return errors.New("a host is missing, or is not host:port")
		}
		port := u.Port()
		if port == "" {
			port = defaultPort
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("a port is not a number from 1 to 65535")
		}
		r.addrs = append(r.addrs, net.JoinHostPort(u.Hostname(), port))
	}
	return nil
}

// allowed are the parameters that make sense.
func (r *redisURL) allowed() (names []string) {
	if r.sentinel() {
		names = append(names, redisDB, sentinelUser, sentinelPassword)
	}
	if r.tls() {
		names = append(names, redisCA, redisCert, redisKey)
	}
	return names
}

func (r *redisURL) parseParams(u *url.URL) error {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Fragment != "" {
		return errors.New("it is not a URL: in a password write ? # % as %3F %23 %25")
	}
	for name, all := range values {
		switch {
		case name == "skip_verify":
			return fmt.Errorf("skip_verify is refused: who stands between gets the password and can let two in; name the server's CA with ?%s=FILE", redisCA)
		case !slices.Contains(r.allowed(), name):
			return errors.New("it has an unknown parameter; " + r.possible())
		case len(all) > 1 || all[0] == "":
			return fmt.Errorf("parameter %s stands there twice, or has no value", name)
		}
		r.params[name] = all[0]
	}
	if (r.params[redisCert] == "") != (r.params[redisKey] == "") {
		return fmt.Errorf("%s and %s belong together: the client's certificate and its key", redisCert, redisKey)
	}
	if r.params[sentinelUser] != "" && r.params[sentinelPassword] == "" {
		return fmt.Errorf("%s needs %s", sentinelUser, sentinelPassword)
	}
	return nil
}

func (r *redisURL) possible() string {
	if names := r.allowed(); len(names) > 0 {
		return fmt.Sprintf("possible for %s:// are %s", r.scheme, strings.Join(names, ", "))
	}
	return fmt.Sprintf("none is possible for %s://", r.scheme)
}

// parsePath reads what stands behind the hosts: the database, or the name of the master.
func (r *redisURL) parsePath(path string) error {
	db := path
	if r.sentinel() {
		if path == "" {
			return errors.New("the master's name is missing: redis+sentinel://host:port,host:port/NAME")
		}
		r.master, db = path, r.params[redisDB]
	}
	if db == "" {
		return nil
	}
	n, err := strconv.ParseUint(db, 10, 16)
	switch {
	case r.clustered() && (err != nil || n != 0):
		return errors.New("a Cluster has database 0 only: write nothing behind the hosts")
	case err != nil:
		return errors.New("the database is not a number")
	}
	r.db = int(n)
	return nil
}

// name is what a user may read.
func (r *redisURL) name() string {
	text := r.scheme + "://" + strings.Join(r.addrs, ",")
	switch {
	case r.sentinel() && r.db == 0:
		return text + "/" + r.master
	case r.sentinel():
		return fmt.Sprintf("%s/%s?%s=%d", text, r.master, redisDB, r.db)
	case r.clustered():
		return text
	}
	return fmt.Sprintf("%s/%d", text, r.db)
}

// id is the same for all who lock each other out, whoever they log in as. It cannot tell that two lists of hosts name one Cluster, or the Sentinels of one master:
// a run inside a run that was given another list waits for its parent's key instead of being refused.
func (r *redisURL) id(prefix string) string {
	same := *r
	same.scheme = strings.Replace(r.scheme, "rediss", "redis", 1)
	same.addrs = slices.Sorted(slices.Values(r.addrs))
	return same.name() + "#" + prefix
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
