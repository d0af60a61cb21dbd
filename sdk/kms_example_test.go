package sdk_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"fmt"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

// KMS is the call of a key management service that a payload codec needs: kms.Client.Decrypt of AWS, for one.
type KMS interface {
	Decrypt(ctx context.Context, wrapped []byte) ([]byte, error)
}

// WrappedKey is a data key of the configuration, which only the key management service can read.
type WrappedKey struct {
	ID      string
	Wrapped []byte // as GenerateDataKeyWithoutPlaintext returned it
}

// NewKMSCodec asks the service once for each data key, the newest first. After that it is not needed.
func NewKMSCodec(ctx context.Context, kms KMS, wrapped ...WrappedKey) (*sdk.AESGCMCodec, error) {
	keys := make([]sdk.PayloadKey, len(wrapped))
	for i, w := range wrapped {
		secret, err := kms.Decrypt(ctx, w.Wrapped)
		if err != nil {
			return nil, fmt.Errorf("payload key %s: %w", w.ID, err)
		}
		keys[i] = sdk.PayloadKey{ID: w.ID, Secret: secret}
	}
	return sdk.NewAESGCMCodec(keys...)
}

func ExampleNewAESGCMCodec_kms() {
	service, wrapped := fakeKMS{}, make([]byte, 32)
	codec, err := NewKMSCodec(context.Background(), service, WrappedKey{ID: "2026-11", Wrapped: wrapped})
	if err != nil {
		fmt.Println(err)
		return
	}
	k := sdktest.Open(sdktest.PayloadCodec(codec)) // in a program: sdk.NewClient(url, sdk.WithPayloadCodec(codec))
	defer k.Close()
	k.Lambda(SendReminder.Name())
	id, err := SendReminder.Schedule(context.Background(), k.Client(), Reminder{User: 42})
	fmt.Println(string(k.Task(id).Payload), err)
	// Output: {"user":42} <nil>
}

// fakeKMS stands for a service: its data keys are wrapped with one block cipher.
type fakeKMS struct{}

func (fakeKMS) Decrypt(_ context.Context, wrapped []byte) ([]byte, error) {
	block, err := aes.NewCipher(make([]byte, 32))
	if err != nil {
		return nil, err
	}
	key := make([]byte, len(wrapped))
	cipher.NewCTR(block, make([]byte, aes.BlockSize)).XORKeyStream(key, wrapped)
	return key, nil
}

// payloadCodec encrypts with the first key and decrypts with all.
func payloadCodec(newest, older []byte) (*sdk.AESGCMCodec, error) {
	return sdk.NewAESGCMCodec(
		sdk.PayloadKey{ID: "2026-11", Secret: newest}, // 32 random bytes: openssl rand 32
		sdk.PayloadKey{ID: "2026-05", Secret: older},
	)
}

func ExampleWithPayloadCodec() {
	codec, err := payloadCodec([]byte("32 random bytes, newest of two.."), []byte("32 random bytes, older of both.."))
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := sdk.NewClient("http://127.0.0.1:7070", sdk.WithPayloadCodec(codec))
	if err == nil {
		defer client.Close()
	}
	fmt.Println(err)
	// Output: <nil>
}
