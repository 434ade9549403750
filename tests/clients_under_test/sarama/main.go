// sarama: writes 0, 1, 2, ... as the environment of `barnabas reauth-check` says.
package main

import (
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
)

type scramClient struct {
	hash         scram.HashGeneratorFcn
	conversation *scram.ClientConversation
}

func (c *scramClient) Begin(user, password, authzID string) error {
	client, err := c.hash.NewClient(user, password, authzID)
	if err == nil {
		c.conversation = client.NewConversation()
	}
	return err
}

func (c *scramClient) Step(challenge string) (string, error) { return c.conversation.Step(challenge) }

func (c *scramClient) Done() bool { return c.conversation.Done() }

func main() {
	sarama.Logger = log.New(os.Stderr, "", 0)
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Net.SASL.Enable = true
	config.Net.SASL.Mechanism = sarama.SASLMechanism(os.Getenv("REAUTH_MECHANISM"))
	config.Net.SASL.User = os.Getenv("REAUTH_USERNAME")
	config.Net.SASL.Password = os.Getenv("REAUTH_PASSWORD")
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient {
		if os.Getenv("REAUTH_MECHANISM") == "SCRAM-SHA-256" {
			return &scramClient{hash: sha256.New}
		}
		return &scramClient{hash: sha512.New}
	}
	config.Producer.RequiredAcks = sarama.WaitForAll
	producer, err := sarama.NewAsyncProducer([]string{os.Getenv("REAUTH_BOOTSTRAP")}, config)
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		for failure := range producer.Errors() {
			fmt.Fprintln(os.Stderr, "not delivered:", failure.Err)
			os.Exit(1)
		}
	}()
	for number := 0; ; number++ {
		value := sarama.StringEncoder(strconv.Itoa(number))
		producer.Input() <- &sarama.ProducerMessage{Topic: os.Getenv("REAUTH_TOPIC"), Value: value}
		time.Sleep(20 * time.Millisecond)
	}
}
