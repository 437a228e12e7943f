package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/picket-go/picket/redisstore"
)

// defaultPrefix is redisstore's; the id of a store has it.
const defaultPrefix = "lock:"

// openRedis connects to nothing yet.
func (p *program) openRedis(src source) (*store, error) {
	refuse := func(err error) error { return exitf(exitUsage, "%s: %s", src.name, err) }
	r, err := parseRedis(src.url)
	if err != nil {
		return nil, refuse(err)
	}
	if src.exposed && r.secret() {
		return nil, refuse(fmt.Errorf("a password on the command line is refused, because ps shows it to everybody: put the URL into %s, or into a file for --store-file", storeVariable))
	}
	config, err := r.tlsConfig()
	if err != nil {
		return nil, refuse(err)
	}
	prefix := p.prefix()
	redis.SetLogger(silence{})
	s, err := redisstore.New(redis.NewUniversalClient(r.options(config)), redisstore.WithPrefix(prefix)) // closed by the end of the process
	if err != nil {
		return nil, refusal(err, r.name(), explain)
	}
	advice := func(err error) string { return r.advice(err, prefix) }
	return &store{Store: s, name: r.name(), id: r.id(prefix), chosen: true, advice: advice}, nil
}

// prefix is what Redis keys begin with.
func (p *program) prefix() string {
	switch env := os.Getenv(prefixVariable); {
	case p.redisPrefix != "":
		return p.redisPrefix
	case env != "":
		return env
	}
	return defaultPrefix
}

// silence is go-redis' logger, which writes to stderr otherwise: what matters of it comes back as an error.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// The client serves one lease, so it is small, and does not repeat itself: the Locker knows how long it may go on.
const (
	dialTimeout = 2 * time.Second // a call waits for a second only; the next one finds the connection that came late
	callTimeout = time.Second
	connections = 4 // renewal, release, re-check, and one that is stuck
	bufferSize  = 4 << 10
)

func (r *redisURL) options(config *tls.Config) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs:            r.addrs,
		IsClusterMode:    r.clustered(), // one address would make a client of one server
		MasterName:       r.master,
		DB:               r.db,
		Username:         r.user,
		Password:         r.password,
		SentinelUsername: r.params[sentinelUser],
		SentinelPassword: r.params[sentinelPassword],
		TLSConfig:        config,

		ClientName:       "picket", // CLIENT LIST shows it
		DisableIdentity:  true,     // saves a round trip of each start
		MaxRetries:       -1,
		DialerRetries:    1,
		DialTimeout:      dialTimeout,
		ReadTimeout:      callTimeout,
		WriteTimeout:     callTimeout,
		PoolSize:         connections,
		PipelinePoolSize: -1, // pipelines use the connections that are there, and add none
		ReadBufferSize:   bufferSize,
		WriteBufferSize:  bufferSize,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	}
}

// tlsConfig is nil without TLS. The name to verify is that of the host that is dialled: with Sentinel it is known only then.
func (r *redisURL) tlsConfig() (*tls.Config, error) {
	if !r.tls() {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := r.params[redisCA]; file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", redisCA, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s has no certificate (PEM)", redisCA, printable(file))
		}
	}
	if file := r.params[redisCert]; file != "" {
		own, err := tls.LoadX509KeyPair(file, r.params[redisKey])
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", redisCert, redisKey, err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}
