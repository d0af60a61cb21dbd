package server

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/node"
)

func TestConfigValidate(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		words  []string // of the refusal; none: fine
	}{
		{"nothing", Config{}, nil},
		{"localhost", Config{Listen: "localhost:7070"}, nil},
		{"IPv4 loopback", Config{Listen: "127.8.9.10:0"}, nil},
		{"IPv6 loopback", Config{Listen: "[::1]:65535"}, nil},
		{"IPv4 loopback in IPv6", Config{Listen: "[::ffff:127.0.0.1]:1"}, nil},
		{"all addresses", Config{Listen: ":7070"}, []string{"beyond loopback", "--auth-token-file", "127.0.0.1"}},
		{"all addresses, with tokens", Config{Listen: ":7070", AuthTokenFile: "f"}, nil},
		{"a name, with tokens", Config{Listen: "example.org:7070", AuthTokenFile: "f"}, nil},
		{"no port, with tokens", Config{Listen: "0.0.0.0", AuthTokenFile: "f"}, []string{"host:port"}},
		{"all IPv4 addresses", Config{Listen: "0.0.0.0:7070"}, []string{"beyond loopback"}},
		{"all IPv6 addresses", Config{Listen: "[::]:7070"}, []string{"beyond loopback"}},
		{"a private address", Config{Listen: "192.168.1.2:7070"}, []string{"beyond loopback", "192.168.1.2:7070"}},
		{"a name", Config{Listen: "example.org:7070"}, []string{"beyond loopback"}},
		{"a name that begins well", Config{Listen: "localhost.example.org:7070"}, []string{"beyond loopback"}},
		{"no port", Config{Listen: "127.0.0.1"}, []string{"host:port", ListenDefault}},
		{"port too large", Config{Listen: "127.0.0.1:65536"}, []string{"0 to 65535"}},
		{"port by name", Config{Listen: "127.0.0.1:http"}, []string{"0 to 65535"}},
		{"negative port", Config{Listen: "127.0.0.1:-1"}, []string{"0 to 65535"}},
		{"backups", Config{BackupTo: "s3://b/p", BackupEvery: time.Minute, BackupKeep: time.Hour}, nil},
		{"backups of DynamoDB", onDynamoDB(Config{BackupTo: "dir"}), []string{"--backup-to", "point-in-time recovery"}},
		{"backups to nowhere", Config{BackupEvery: time.Minute}, []string{"--backup-to"}},
		{"backups all the time", Config{BackupTo: "dir", BackupEvery: time.Millisecond}, []string{"want 1s at least"}},
		{"backups that go at once", Config{BackupTo: "dir", BackupKeep: time.Minute}, []string{"want 1h0m0s at least"}},
		{"some roles", Config{Roles: []string{node.RoleInbound, node.RoleHSC}}, nil},
		{"unknown role", Config{Roles: []string{"boss"}}, []string{`"boss"`, "inbound, scheduler, dispatcher, hsc"}},
		{"a scheduler, with its dispatcher", Config{Roles: []string{node.RoleScheduler}}, nil},
		{"a dispatcher alone", Config{Roles: []string{node.RoleDispatcher}}, []string{"dispatcher without", "want scheduler"}},
		{"members by rows", onDynamoDB(Config{Membership: MembershipStore}), nil},
		{"members by pods", onDynamoDB(Config{Membership: MembershipKubernetes}), nil},
		{"members by a list", onDynamoDB(Config{Membership: MembershipStatic, Members: []string{"a", "b-1.x_y"}, MemberName: "a"}), nil},
		{"unknown membership", onDynamoDB(Config{Membership: "gossip"}), []string{`"gossip"`, "store, kubernetes, static"}},
		{"members of an embedded store", Config{Membership: MembershipStore}, []string{"store pebble", "--store dynamodb"}},
		{"a list for pods", onDynamoDB(Config{Membership: MembershipKubernetes, Members: []string{"a"}}), []string{"--membership static"}},
		{"a list for nobody", Config{MemberName: "a"}, []string{"--membership static"}},
		{"no list", onDynamoDB(Config{Membership: MembershipStatic, MemberName: "a"}), []string{"--members A,B,C"}},
		{"no name", onDynamoDB(Config{Membership: MembershipStatic, Members: []string{"a"}}), []string{"--member-name"}},
		{"another one's name", onDynamoDB(Config{Membership: MembershipStatic, Members: []string{"a", "b"}, MemberName: "c"}), []string{`"c"`, "one of a, b"}},
		{"a member twice", onDynamoDB(Config{Membership: MembershipStatic, Members: []string{"a", "b", "a"}, MemberName: "a"}), []string{"a is named twice"}},
		{"an empty member", onDynamoDB(Config{Membership: MembershipStatic, Members: []string{"a", ""}, MemberName: "a"}), []string{`member ""`, "1 to 253"}},
		{"an odd member", onDynamoDB(Config{Membership: MembershipStatic, Members: []string{"a", "b c"}, MemberName: "a"}), []string{`member "b c"`}},
		{"a long member", onDynamoDB(Config{Membership: MembershipStatic, Members: []string{strings.Repeat("a", 254)}, MemberName: "a"}), []string{"1 to 253"}},
		{"many members", onDynamoDB(Config{Membership: MembershipStatic, Members: make([]string, 1001), MemberName: "a"}), []string{"1001 members"}},
		{"largest payload", Config{PayloadBytesMax: payloadBytesCeil}, nil},
		{"payload too large", Config{PayloadBytesMax: payloadBytesCeil + 1}, []string{"1 to 4194304"}},
		{"negative payload", Config{PayloadBytesMax: -1}, []string{"payload limit -1"}},
		{"negative horizon", Config{Horizon: -1}, []string{"horizon"}},
		{"negative window", Config{Window: -1}, []string{"window"}},
		{"negative drain", Config{DrainMax: -time.Second}, []string{"drain"}},
		{"all on AWS", Config{Store: StoreDynamoDB, Queue: QueueSQS, AWSPrefix: "prod_1-a", Inbound: true}, nil},
		{"embedded store, queues on AWS", Config{Queue: QueueSQS, AWSPrefix: "p"}, nil},
		{"a prefix that nobody needs", Config{AWSPrefix: "p"}, []string{`"p"`, "store pebble", "queue memory", "--store dynamodb --queue sqs"}},
		{"unknown store", Config{Store: "mysql"}, []string{`"mysql"`, "pebble or dynamodb"}},
		{"unknown queue", Config{Queue: "kafka"}, []string{`"kafka"`, "memory or sqs"}},
		{"memory for a shared store", Config{Store: StoreDynamoDB, AWSPrefix: "p"}, []string{"queue memory", "use queue sqs"}},
		{"no prefix", Config{Queue: QueueSQS}, []string{"--aws-prefix"}},
		{"no prefix for the inbound queue", Config{Inbound: true}, []string{"--aws-prefix"}},
		{"a long prefix", Config{Queue: QueueSQS, AWSPrefix: strings.Repeat("p", 21)}, []string{"1 to 20 characters"}},
		{"an odd prefix", Config{Queue: QueueSQS, AWSPrefix: "a.b"}, []string{"1 to 20 characters"}},
		{"small messages", Config{MessageBytesMax: 1024}, []string{"message limit 1024", "4096 to 1048576"}},
		{"direct beyond SQS", Config{DeliverDirect: 16 * time.Minute}, []string{"16m", "15m"}},
		{"never direct", Config{DeliverDirect: -1}, nil},
		{"scans too far apart", Config{Store: StoreDynamoDB, Queue: QueueSQS, AWSPrefix: "p", Window: time.Minute}, []string{"at most 18s"}},
		{"a trace URL with a password", Config{TraceURL: "https://me:canary@traces.example/{trace_id}"}, []string{"without a user"}},
		{"many receives", Config{InboundConcurrency: 1000}, []string{"1 to 256"}},
		{"rate without bound", Config{InboundRate: -1}, nil},
		{"no rate at all", Config{InboundRate: math.NaN()}, []string{"tasks per second"}},
		{"all at once", Config{Listen: "x", Roles: []string{"boss"}, Horizon: -1}, []string{"host:port", "boss", "horizon"}},
	} {
		err := c.config.Validate()
		if len(c.words) == 0 {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", c.name, err)
			continue
		}
		if n := strings.Count(err.Error(), ErrConfig.Error()); n != 1 {
			t.Errorf("%s: says %d times what it is: %q", c.name, n, err)
		}
		for _, word := range c.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", c.name, err, word)
			}
		}
	}
}

func onDynamoDB(c Config) Config {
	c.Store, c.Queue, c.AWSPrefix = StoreDynamoDB, QueueSQS, "p"
	return c
}

func TestMembershipDefault(t *testing.T) {
	if got := (Config{}).withDefaults().Membership; got != "" {
		t.Errorf("of an embedded store: %q", got)
	}
	if got := onDynamoDB(Config{}).withDefaults().Membership; got != MembershipStore {
		t.Errorf("of a shared store: %q", got)
	}
}

func TestConfigDefaultsAreACopy(t *testing.T) {
	var c Config
	if d := c.withDefaults(); d.DataDir != DataDirDefault || d.Listen != ListenDefault || len(d.Roles) != 5 || d.Log == nil || d.DrainMax != DrainMaxDefault {
		t.Errorf("%+v", d)
	}
	if c.DataDir != "" || c.Roles != nil {
		t.Error("the original was changed")
	}
}

func TestSettingsHaveNoSecrets(t *testing.T) {
	for _, endpoint := range []string{"https://canary@otlp.example:4318", "https://me:canary@otlp.example", "https://otlp.example/v1?key=canary#canary", "http://otlp.example/%zz?canary"} {
		shown := fmt.Sprint((&Config{OTLPEndpoint: endpoint}).settings())
		if strings.Contains(shown, "canary") {
			t.Errorf("%s: %s", endpoint, shown)
		}
	}
	if got := (&Config{OTLPEndpoint: "http://127.0.0.1:4318/otlp"}).settings()["OTLPEndpoint"]; got != "http://127.0.0.1:4318/otlp" {
		t.Errorf("%v", got)
	}
}

func TestSharesOfFiles(t *testing.T) {
	t.Parallel()
	embedded, remote := Config{Store: StorePebble, Queue: QueueMemory}, Config{Store: StoreDynamoDB, Queue: QueueSQS}
	for _, c := range []struct {
		name    string
		config  Config
		allowed uint64
		want    descriptors
		err     error
	}{
		{"too few", embedded, 159, descriptors{80, 31}, ErrDescriptors},
		{"just enough", embedded, 160, descriptors{80, 32}, nil},
		{"256", embedded, 256, descriptors{80, 128}, nil},
		{"1024", embedded, 1024, descriptors{256, 720}, nil},
		{"plenty", embedded, 20_000, descriptors{500, 19_452}, nil},
		{"no limit", embedded, 1 << 63, descriptors{500, 1 << 16}, nil},
		{"too few on AWS", remote, 159, descriptors{0, 32}, nil},
		{"none on AWS", remote, 100, descriptors{0, 2}, ErrDescriptors},
		{"1024 on AWS", remote, 1024, descriptors{0, 464}, nil},
	} {
		got, err := shareFiles(c.allowed, &c.config)
		if got != c.want || !errors.Is(err, c.err) || (c.err == nil) != (err == nil) {
			t.Errorf("%s: %+v, %v, want %+v, %v", c.name, got, err, c.want, c.err)
		}
	}
}
