package mtls_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"github.com/goverse/goverse/cluster"
	"github.com/goverse/goverse/node"
	"github.com/goverse/goverse/node/mtls"
)

// A node serves only callers with a certificate of the cluster's authority, and calls only nodes with one.
func Example() {
	dir, err := os.MkdirTemp("", "mtls")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	writeCertificate(dir) // by your authority

	certs, err := mtls.New(mtls.Config{CertFile: filepath.Join(dir, "node.pem"), KeyFile: filepath.Join(dir, "key.pem"),
		CAFile: filepath.Join(dir, "ca.pem")})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = certs.Close() }()
	n, err := node.NewNode(node.Config{AdvertiseAddress: "localhost:0",
		ServerOptions: []grpc.ServerOption{certs.ServerOption()}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	_, err = cluster.NewClusterWithNode(cluster.Config{DialOptions: []grpc.DialOption{certs.DialOption()}}, n)
	fmt.Println(certs.Leaf().DNSNames, err)
	// Output: [localhost] <nil>
}

// writeCertificate writes a certificate for localhost that is its own authority.
func writeCertificate(dir string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	now := time.Now()
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		log.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		log.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"node.pem": {Type: "CERTIFICATE", Bytes: der},
		"ca.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			log.Fatal(err)
		}
	}
}
