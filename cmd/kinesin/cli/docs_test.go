package cli

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/cmd/settings"
)

var update = flag.Bool("update", false, "write docs/reference/cli.md and configuration.md")

const (
	reference = "../../../docs/reference/"
	cliIntro  = `# Command line

<!-- make docs/cli writes this page. Change the help of the commands instead, or the introduction in cmd/kinesin/cli/docs_test.go. -->

` + "`kinesin COMMAND --help`" + ` says what this page says, with examples, and describes all flags.

## Output and exit codes

- **Commands** are ` + "`kinesin NOUN create|get|list|set|delete|ACTION NAME`" + `. What you do with tasks has no noun: ` + "`kinesin get ID`" + `.
  ` + "`create` refuses what exists; `set`" + ` changes the settings that you give and leaves the others; ` + "`--reset NAMES`" + ` takes settings
  back to their defaults. ` + "`show` means `get`, `update` means `set`, `slo` means `objective`" + `.
- **stdout** has results only. ` + "`-o wide` adds columns to lists, `-o name`" + ` prints names alone.
- **` + "`-o json`" + `** prints what [HTTP](http.md) answers to the same request; ` + "`/v1/openapi.json`" + ` describes the fields. Several IDs
  make an array, in which a refused one is ` + "`{\"id\":…,\"problem\":{…}}`. `audit list`, `group members`, `list --limit 0`" + ` and
  ` + "`schedule --batch`" + ` print an object on each line.
- **stderr** has notes, logs, progress, and errors as ` + "`kinesin: …`" + `.
- **` + "`-w`, `--watch`" + `**: commands that list or show something look again every 2 s and print what has changed, until Ctrl-C.
- **Durations**: ` + "`250ms`, `90s`, `1h30m`, and with days of 24 hours and weeks `3d`, `2w`" + `.
- **Times**: RFC 3339 with a zone: ` + "`2027-01-31T09:00:00Z`. `--at` also takes `'tomorrow 9:00'`, with `--zone`" + `. Results are in
  UTC, with microseconds.
- **Payloads**: ` + "`--payload TEXT` is the payload itself; `--payload-file FILE` reads one, `-`" + ` for stdin.

Exit codes:

- 0: done
- 1: failed, or [refused](errors.md) by the server; --help says when
- 2: bad usage: the command line, a variable or the configuration file is wrong
- 3: the environment is misconfigured: AWS, Kubernetes or the clock of this machine; a retry does not help

All commands have ` + "`--help` and `--config`" + `. Flags that are [settings](configuration.md), such as those of the connection to a
server, are on that page only.

## kinesin completion

` + "`kinesin completion bash|zsh|fish|powershell`" + ` prints a script that completes commands, flags, and names of lambdas,
crons, gates and so on, with Tab. Bash needs the package bash-completion.

` + "```sh" + `
source <(kinesin completion bash)
` + "```" + `

## Flags of many commands

`
)

// TestCommandsPage compares docs/reference/cli.md with the tree of commands.
func TestCommandsPage(t *testing.T) {
	t.Parallel()
	root := (&app{}).root()
	p := &page{sections: map[string]int{}}
	for _, c := range root.Commands() {
		p.count(c, map[string]bool{})
	}
	p.WriteString(cliIntro)
	for _, row := range slices.Sorted(maps.Keys(p.sections)) {
		if p.sections[row] > 2 {
			p.WriteString(row)
		}
	}
	for _, c := range root.Commands() {
		if !c.Hidden {
			p.section(c)
		}
	}
	compare(t, "cli.md", p.String())
}

// subjects are the parts of docs/reference/configuration.md: settings of a command, by their names.
var subjects = []struct{ title, note, command, names string }{
	{"Clients and workers", "Of all commands that call a server. A list of servers, such as `10.0.0.1:7070,10.0.0.2:7070`, has 16 at most; workers keep " +
		"their leases and running tasks when one fails.", "get", "server token-file tls-ca-file tls-client-cert-file tls-client-key-file payload-key-file blobs output"},
	{"Worker", "", "worker", "lambda concurrency lease grace name worker-version env http http-secret-file"},
	{"Server", "Of the roles `inbound` serves clients, `hsc` serves workers, and `scheduler`, which includes `dispatcher`, dispatches due tasks; `targets` calls the targets of lambdas.", "serve", "listen roles horizon window payload-max drain match watch-workers targets-allow targets-functions targets-identities"},
	{
		"Store and queues", "`pebble` with `memory` needs nothing else and is one process. `dynamodb` with `sqs` is for any number of processes with the " +
			"same prefix. `pebble` with `sqs` is one process with [deliver lambdas](../how-to/aws.md#4-a-deliver-lambda-read-from-python); `dynamodb` with `memory` is refused.", "serve",
		"store data queue aws-prefix queue-policies grow-shards message-max deliver-direct inbound-queue inbound-rate inbound-concurrency",
	},
	{"Servers over one store", "`kubernetes` needs `POD_NAME` and `POD_NAMESPACE`, and the right to get, list and watch pods and replicasets.", "serve", "membership members member-name"},
	{"Who may call", "See [who may do what](../how-to/access.md). A file of tokens has one in each line, 32 to 8,192 characters of A-Z, a-z, 0-9 and `-._~+/=`, at most 64: " +
		"`openssl rand -hex 32` makes one. Clients send the first line of theirs. To replace a token append the new one at the servers, make it " +
		"the first at the clients, then remove the old one. All files are read again when they change.", "serve", "auth-token-file policy tls-cert-file tls-key-file audit-keep audit-stdout"},
	{
		"Bounds", "A call that would go beyond is refused and names the flag that raises the bound. Set the same on all servers of an installation. " +
			"A server needs 160 open files (`ulimit -n`) to start; allow 1,024 or more, which bound its connections (`kinesin_connections_max`).", "serve",
		"lambdas-max lambda-partitions-max partitions-max connections-per-address",
	},
	{"Backups and large payloads", "See [backups](../how-to/backup.md).", "serve", "backup-to backup-every backup-keep blobs"},
	{
		"Console", "See [console](../how-to/console.md).", "serve",
		"console console-read-only console-forecast-rows trace-url console-oidc-issuer console-oidc-client-id console-oidc-client-secret-file console-oidc-scopes console-oidc-redirect-url",
	},
	{"Log, metrics and traces", "The log has at most 20 warnings and errors with the same message in 10 s, and then how many were left out. " +
		"`kinesin debug log-level` changes levels while the server runs.", "serve", "log-level log-format metric-lambdas native-histograms otlp-endpoint otlp-metrics trace-sample"},
}

const configurationIntro = `# Configuration

<!-- make docs/cli writes this page. Change the help of the flags instead, or cmd/kinesin/cli/docs_test.go. -->

A setting is a flag that the environment and a YAML file may set, too. The first of these that has it counts: the flag, the
variable, the file, the default. The variable of ` + "`--log-level` is `KINESIN_LOG_LEVEL`" + `, and so on; an empty variable is
ignored. ` + "`--config FILE` or `KINESIN_CONFIG`" + ` names the file, whose keys are the names of the flags. An unknown key is
refused, with the list of all settings. ` + "`kinesin config view`" + ` shows what holds and where it comes from. Below, defaults are in
parentheses.

` + "```yaml" + `
# kinesin.yaml
server: http://127.0.0.1:7171
listen: 127.0.0.1:7171
data: /var/lib/kinesin
roles: [inbound, scheduler, dispatcher, hsc, targets]
log-format: json
` + "```" + `

Region, credentials and endpoints on AWS are those of the AWS SDK: ` + "`AWS_REGION`, `AWS_PROFILE`, `AWS_ENDPOINT_URL_DYNAMODB`" + ` …
`

// TestConfigurationPage compares docs/reference/configuration.md with the settings of the commands.
func TestConfigurationPage(t *testing.T) {
	t.Parallel()
	root := (&app{}).root()
	notSet := regexp.MustCompile(`; ([^;]+) when not set$`)
	var p strings.Builder
	p.WriteString(configurationIntro)
	described := map[string]bool{"config": true}
	for _, s := range subjects {
		c, _, err := root.Find([]string{s.command})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&p, "\n## %s\n\n", s.title)
		if s.note != "" {
			p.WriteString(s.note + "\n\n")
		}
		for name := range strings.FieldsSeq(s.names) {
			f := c.Flags().Lookup(name)
			if f == nil || !settings.Is(f) {
				t.Fatalf("--%s is no setting of kinesin %s", name, s.command)
			}
			described[name] = true
			arg, usage := pflag.UnquoteUsage(f)
			usage, value := strings.TrimSuffix(usage, " ("+settings.EnvName(name)+")"), ""
			if said := notSet.FindStringSubmatch(usage); said != nil {
				usage, value = strings.TrimSuffix(usage, said[0]), strings.TrimSuffix(said[1], ",")
			} else if !slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
				value = f.DefValue
			}
			if value != "" {
				value = " (" + value + ")"
			}
			fmt.Fprintf(&p, "- `--%s`%s: %s\n", strings.TrimSpace(name+" "+arg), value, inline(usage))
		}
	}
	for _, name := range settings.Names(root) {
		if !described[name] {
			t.Errorf("--%s is in no subject of docs/reference/configuration.md", name)
		}
	}
	compare(t, "configuration.md", p.String())
}

// compare compares a page with what it should be, or writes it.
func compare(t *testing.T, name, want string) {
	t.Helper()
	have, err := os.ReadFile(reference + name)
	switch {
	case *update:
		err = os.WriteFile(reference+name, []byte(want), 0o644)
	case err == nil && want != string(have):
		t.Errorf("docs/reference/%s has other commands or flags than the program: make docs/cli", name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// page is a page of commands as Markdown.
type page struct {
	strings.Builder
	sections map[string]int // lines about flags, by how many sections have them; those of three and more are described
	nested   []string       // texts about nouns of nouns, of the section that is written
}

// count counts in how many sections each flag is.
func (p *page) count(c *cobra.Command, seen map[string]bool) {
	described(c, func(f *pflag.Flag) {
		if line := "- " + flagName(f) + ": " + flagText(f) + "\n"; !seen[line] {
			seen[line] = true
			p.sections[line]++
		}
	})
	for _, below := range c.Commands() {
		p.count(below, seen)
	}
}

// described visits the flags of a command that this page names. The others are settings, no flags for people, or in cliIntro.
func described(c *cobra.Command, visit func(*pflag.Flag)) {
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !c.Hidden && c.Name() != "doctor" && f.Name != "help" && !settings.Is(f) && f.Name != "watch" && f.Name != "reset" {
			visit(f)
		}
	})
}

// section writes a command of the first level with all below it.
func (p *page) section(c *cobra.Command) {
	fmt.Fprintf(p, "\n## %s\n", c.CommandPath())
	if c.HasSubCommands() {
		p.long(cmp.Or(c.Long, c.Short+"."))
		p.WriteString("\n")
	}
	p.command(c)
	for _, text := range p.nested {
		p.long(text)
	}
	p.nested = nil
}

// command writes a command, and those below it as a list.
func (p *page) command(c *cobra.Command) {
	usage, named := strings.TrimSuffix(c.UseLine(), " [flags]"), ""
	var flags []string
	described(c, func(f *pflag.Flag) {
		if !regexp.MustCompile("--" + f.Name + `\b`).MatchString(usage) {
			flags = append(flags, flagName(f))
		}
	})
	if flags != nil {
		named = "Flags: " + strings.Join(flags, ", ") + "."
	}
	switch isNoun := c.HasSubCommands(); {
	case !isNoun && !c.Parent().HasParent():
		if usage != c.CommandPath() {
			fmt.Fprintf(p, "\n```\n%s\n```\n", strings.ReplaceAll(usage, "\n  ", "\n"))
		}
		p.long(cmp.Or(c.Long, c.Short+"."))
		if named != "" {
			p.WriteString("\n" + named + "\n")
		}
	case !isNoun:
		usage, _, _ = strings.Cut(strings.TrimPrefix(usage, "kinesin "), "\n")
		text := inline(cmp.Or(c.Long, c.Short+".")) + " " + named
		fmt.Fprintf(p, "- `%s`: %s\n", usage, strings.TrimSpace(text))
	case c.Parent().HasParent():
		p.nested = append(p.nested, c.Long)
	}
	for _, below := range c.Commands() {
		if !below.Hidden {
			p.command(below)
		}
	}
}

// long writes a help text. What is indented in it is a table for a terminal, and becomes a block.
func (p *page) long(text string) {
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(paragraph, "  ") {
			fmt.Fprintf(p, "\n```\n%s\n```\n", strings.ReplaceAll(paragraph[2:], "\n  ", "\n"))
		} else if text := markdown(paragraph); text != "" {
			fmt.Fprintf(p, "\n%s\n", text)
		}
	}
}

// flagName is a flag with what it takes.
func flagName(f *pflag.Flag) string {
	name, _ := pflag.UnquoteUsage(f)
	if slices.Contains([]string{"string", "word", "int", "float", "count"}, name) {
		name = ""
	}
	name = "`" + strings.TrimSpace("--"+f.Name+" "+name) + "`"
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, " + name
	}
	return name
}

// flagText is what a flag does. --help has its bounds and default, too.
func flagText(f *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(f)
	usage, _, _ = strings.Cut(usage, "; ")
	return inline(usage)
}

var (
	pageName    = regexp.MustCompile(`docs/([a-z-]+)/([a-z-]+)\.md(?:#([a-z-]+))?`)
	commandName = regexp.MustCompile(`'(kinesin [^']+)'`)
	refusals    = regexp.MustCompile(`\s*\bExit 1 (when|if|while) [^.]*\.`) // which --help lists
)

// markdown escapes what means something in a paragraph, and links pages.
func markdown(text string) string {
	text = strings.NewReplacer("<", "&lt;", "*", `\*`).Replace(strings.TrimSpace(refusals.ReplaceAllString(text, "")))
	text = pageName.ReplaceAllStringFunc(text, func(path string) string {
		found := pageName.FindStringSubmatch(path)
		return strings.Replace("["+cmp.Or(found[3], found[2])+"](../"+path[len("docs/"):]+")", "../reference/", "", 1)
	})
	return commandName.ReplaceAllString(text, "`$1`")
}

// inline is markdown on one line.
func inline(text string) string { return strings.Join(strings.Fields(markdown(text)), " ") }
