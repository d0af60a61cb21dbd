package awslocal

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
)

// kind is what the two emulators differ in.
type kind struct {
	name   string
	folder string                                     // below the installed one
	target string                                     // the operation that shows it is ready: lists what it has
	args   func(e *Emulator, classes string) []string // of Java, the main class included
}

var dynamoDBLocal = kind{
	name: "DynamoDB Local", folder: "dynamodb", target: "DynamoDB_20120810.ListTables",
	args: func(e *Emulator, classes string) []string {
		args := []string{
			"-Djava.library.path=" + classes, // SQLite
			"software.amazon.dynamodb.services.local.main.ServerRunner",
			"-sharedDb", "-disableTelemetry", "-port", strconv.Itoa(e.port),
		}
		if e.opts.DBPath == "" {
			return append(args, "-inMemory")
		}
		return append(args, "-dbPath", e.opts.DBPath)
	},
}

var elasticMQ = kind{
	name: "ElasticMQ", folder: "elasticmq", target: "AmazonSQS.ListQueues",
	args: func(e *Emulator, _ string) []string {
		port := strconv.Itoa(e.port)
		return []string{
			"-Drest-sqs.bind-hostname=127.0.0.1", "-Drest-sqs.bind-port=" + port, "-Drest-sqs.sqs-limits=strict",
			"-Drest-stats.enabled=false",
			"-Dnode-address.protocol=http", "-Dnode-address.host=127.0.0.1", "-Dnode-address.port=" + port,
			"org.elasticmq.server.Main",
		}
	},
}

// heapMiBDefault is enough for what tests put into either.
const heapMiBDefault = 256

// arguments of Java. The first compiler alone and the simple collector start a third sooner.
func (e *Emulator) arguments(dir string) []string {
	heap := e.opts.HeapMiB
	if heap == 0 {
		heap = heapMiBDefault
	}
	classes := filepath.Join(dir, e.kind.folder)
	args := []string{"-Xmx" + strconv.Itoa(heap) + "m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
	args = append(args, e.opts.JVM...)
	args = append(args, "-cp", filepath.Join(classes, "*"))
	return append(args, e.kind.args(e, classes)...)
}

// refusalBytesMax is how much of a refusal is shown.
const refusalBytesMax = 4 << 10

// probe sends one request that lists what is there, signed by nobody.
func probe(ctx context.Context, url, target string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	req.Close = true
	req.Header.Set("X-Amz-Target", target)
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+accessKey+"/20060102/"+region+"/service/aws4_request, SignedHeaders=host, Signature=none")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, refusalBytesMax))
	_ = resp.Body.Close()
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", target, resp.Status, body)
	}
	return nil
}
