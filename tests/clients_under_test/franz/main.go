// franz-go: writes 0, 1, 2, ... as the environment of `barnabas reauth-check` says.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func mechanism() sasl.Mechanism {
	user, password := os.Getenv("REAUTH_USERNAME"), os.Getenv("REAUTH_PASSWORD")
	switch os.Getenv("REAUTH_MECHANISM") {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	}
	return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
}

func main() {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Getenv("REAUTH_BOOTSTRAP")),
		kgo.SASL(mechanism()),
		kgo.DefaultProduceTopic(os.Getenv("REAUTH_TOPIC")),
		kgo.ProducerLinger(0),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for number := 0; ; number++ {
		record := &kgo.Record{Value: []byte(strconv.Itoa(number))}
		client.Produce(context.Background(), record, func(_ *kgo.Record, err error) {
			if err != nil {
				fmt.Fprintln(os.Stderr, "not delivered:", err)
				os.Exit(1)
			}
		})
		time.Sleep(20 * time.Millisecond)
	}
}
