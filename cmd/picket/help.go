package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// writeHelp leads with the examples: most readers look for a line to copy.
func (p *program) writeHelp(cmd *cobra.Command, _ []string) {
	p.unwritten = written(io.WriteString(p.out, helpText(cmd)))
}

func helpText(cmd *cobra.Command) string {
	if !cmd.Runnable() { // a topic
		return cmd.Long + "\n"
	}
	w := new(strings.Builder)
	fmt.Fprintln(w, cmd.Short)
	section(w, "Examples", cmd.Example)
	section(w, "Usage", "  "+cmd.UseLine())
	if cmd.Long != "" {
		fmt.Fprintf(w, "\n%s\n", cmd.Long)
	}
	section(w, "Commands", commandTable(cmd, true))
	section(w, "Flags", cmd.LocalNonPersistentFlags().FlagUsages())
	section(w, "Flags of all commands", cmd.Root().PersistentFlags().FlagUsages())
	section(w, "Topics (picket help TOPIC)", commandTable(cmd, false))
	return w.String()
}

func section(w *strings.Builder, title, body string) {
	if body = strings.TrimRight(body, "\n"); body != "" {
		fmt.Fprintf(w, "\n%s:\n%s\n", title, body)
	}
}

func commandTable(cmd *cobra.Command, runnable bool) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, c := range cmd.Commands() {
		if c.Hidden || (c.Runnable() || c.HasSubCommands()) != runnable {
			continue
		}
		_, _ = fmt.Fprintf(t, "  %s\t%s\n", c.Name(), c.Short)
	}
	_ = t.Flush() // into memory
	return b.String()
}

// newHelp replaces cobra's, which exits 0 on an unknown topic.
func (p *program) newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND|TOPIC]",
		Short: "Show the help of a command or topic",
		ValidArgsFunction: func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, c := range cmd.Root().Commands() {
				if !c.Hidden {
					names = append(names, c.Name()+"\t"+c.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return exitf(exitUsage, "no help on %q", strings.Join(args, " "))
			}
			return about.Help()
		},
	}
}

func topics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "exit-codes", Short: "What the exit codes of picket say", Long: exitCodes},
		{Use: "environment", Short: "The variables that picket reads and sets", Long: environment},
		{Use: "stores", Short: "Where locks can live, and how to keep a password", Long: stores},
	}
}

const exitCodes = `The exit code of picket run is that of the command, or one of these:

  64   usage: a wrong flag, key or URL, or a run inside a run on the same key; nothing was started
  69   the store cannot be reached, or refuses; nothing was started
  75   busy: somebody else holds the key, or --wait is over (-E changes the code); nothing was started
  76   the lock was lost, or --max-hold is over; the command and its process group were ended
  126  the command was found but could not be started
  127  the command was not found
  128+n  signal n ended the command, or the waiting for the lock
         (typed on the terminal, INT or QUIT ends picket in the same way, and so the script around it)

A command may use these codes itself. What picket has to say is one line on stderr that begins with "picket:".

When a store on the network does not answer, -n takes up to 4 seconds to say 69; who may wait takes --ttl and up to 2
seconds, or --wait and up to a second if that is less.

The other commands exit with 0, 64 or 69, and 1 if they cannot write their output. A free key is no error.`

const environment = `picket reads (a flag goes before a variable, a variable before the default):

  PICKET_STORE         URL of the store when neither --store nor --store-file is given
  PICKET_STORE_FILE    a file with that URL instead
  PICKET_REDIS_PREFIX  what keys in Redis begin with, when --redis-prefix is not given; default lock:
  XDG_STATE_HOME       where the default store lives: $XDG_STATE_HOME/picket
  HOME                 if XDG_STATE_HOME is not set: $HOME/.local/state/picket
  PICKET_HELD          set by an outer picket run: the keys that would wait for themselves

The command gets all variables that picket has, PICKET_STORE too, so that a picket in it uses the same store. A URL
that comes from a file is told to nobody: with --store-file or PICKET_STORE_FILE no password is in the command's
environment.

picket run sets for the command, in place of older values:

  PICKET_KEY       the key
  PICKET_TOKEN     the fencing token: larger than those of all earlier grants of the key
  PICKET_HOLDER    the id of this claim; whoever knows it can release the lock, so keep it private
  PICKET_TTL       how long a store with time limits keeps the lock without renewal, such as 30s
  PICKET_DEADLINE  with --max-hold only: when the hold ends (RFC 3339); SIGTERM comes --grace earlier
  PICKET_HELD      store, token and key of this run and of the runs around it`

var stores = `The store is where locks live. Its URL is in --store, $PICKET_STORE, the file --store-file or $PICKET_STORE_FILE:

  file:///var/lib/picket       files in a directory of picket's own: kernel locks of this machine
                               (?network-fs accepts a network file system)
  redis://host:6379/0          database 0 of a Redis (7.0 or later) or Valkey (7.2 or later) server
  redis://user:password@host   as this user; redis://:password@host is the default user
  rediss://host:6379/0         with TLS; ?ca=FILE is the server's CA, ?cert=FILE&key=FILE a client's certificate
  redis+sentinel://host:26379,host:26379/master?db=0
                               the master that these Sentinels call so; user:password@ is for the master,
                               &sentinel-user=USER&sentinel-password=PASSWORD for the Sentinels
  redis+cluster://host:6379,host:6379
                               a Redis Cluster, by some of its nodes: they know the others; user:password@ is for all
  rediss+sentinel://... and rediss+cluster://... are the same with TLS

A password in --store is refused, because ps shows it to everybody: use $PICKET_STORE, or a file that not everybody
can read. In a password write / ? # @ : % as %2F %3F %23 %40 %3A %25. picket prints no password, ever.

Keys in Redis begin with --redis-prefix, default lock:. This is enough for a user:

  ACL SETUSER name on >password ` + strings.Replace(aclRules(defaultPrefix), " +zadd", "\n    +zadd", 1) + `

What a failover of Redis does to locks: docs/redis.md in the source.`
