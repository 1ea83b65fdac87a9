package dbtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/internal/pgembed"
)

// URLVariable names the environment variable with the URL of a database on a server of your own, to
// be used instead of an embedded one. Tests make and drop schemas in it and end its sessions: give
// them a database to themselves.
const URLVariable = "FENCEPOST_TEST_DATABASE_URL"

const (
	database   = "fencepost_test"
	maxFolders = 32                    // test processes at the same time
	nodeRole   = "fencepost_test_node" // its password is its name
)

// server is where this process has its schemas.
type server struct {
	url      string // over the socket, or the given URL
	tcp      *url.URL
	embedded *pgembed.Server // nil: an external server
	lock     *os.File
}

var (
	startOnce sync.Once
	running   *server
	errStart  error
)

func started(ctx context.Context) (*server, error) {
	startOnce.Do(func() { running, errStart = start(ctx) })
	return running, errStart
}

func start(ctx context.Context) (*server, error) {
	if given := os.Getenv(URLVariable); given != "" {
		u, err := url.Parse(given)
		if err != nil {
			return nil, fmt.Errorf("%s is not a URL", URLVariable)
		}
		return &server{url: given, tcp: u}, makeNodeRole(ctx, given)
	}
	dir, lock, err := reserveFolder()
	if err != nil {
		return nil, err
	}
	pg, err := startIn(ctx, dir)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s := &server{url: pg.URL(database), embedded: pg, lock: lock}
	if s.tcp, err = url.Parse(pg.TCPURL(database)); err == nil {
		err = makeDatabase(ctx, pg.URL("postgres"))
	}
	if err == nil {
		err = makeNodeRole(ctx, s.url)
	}
	if err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

// startIn starts the server that was left in a folder. Its data are written without waiting for the
// disk, so they may be corrupt after a crash of the machine; then it starts again with an empty
// folder.
func startIn(ctx context.Context, dir string) (*pgembed.Server, error) {
	settings := pgembed.Disposable()
	settings["max_connections"] = "600"
	settings["shared_buffers"] = "64MB"
	o := pgembed.Options{Dir: dir, Settings: settings, TCP: true}
	pg, err := pgembed.Start(ctx, o)
	if err == nil || ctx.Err() != nil {
		return pg, err
	}
	if removeErr := os.RemoveAll(dir); removeErr != nil {
		return nil, errors.Join(err, removeErr)
	}
	return pgembed.Start(ctx, o)
}

// reserveFolder finds a folder whose server no other test process uses. They are kept, since making
// a cluster takes far longer than starting one.
func reserveFolder() (string, *os.File, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	base := pgembed.ReachableDir(filepath.Join(cache, "fencepost", "dbtest"))
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", nil, err
	}
	for n := range maxFolders {
		dir := filepath.Join(base, strconv.Itoa(n))
		lock, err := os.OpenFile(dir+".lock", os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return "", nil, err
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return dir, lock, nil
		}
		lock.Close()
	}
	return "", nil, fmt.Errorf("all %d folders in %s are in use by other test processes",
		maxFolders, base)
}

// makeDatabase creates the database again: killed tests leave schemas behind.
func makeDatabase(ctx context.Context, admin string) error {
	return onConn(ctx, admin, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+database+" WITH (FORCE)")
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "CREATE DATABASE "+database)
		return err
	})
}

// makeNodeRole makes the role that the nodes under test connect as. Test processes may share a
// server, so another one may make it at the same moment. A test ends sessions of the role, which
// requires membership of an owner that is no superuser.
func makeNodeRole(ctx context.Context, admin string) error {
	return onConn(ctx, admin, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `DO $$ BEGIN
			PERFORM pg_advisory_xact_lock(hashtext('`+nodeRole+`'));
			IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '`+nodeRole+`') THEN
				CREATE ROLE `+nodeRole+` LOGIN PASSWORD '`+nodeRole+`';
			END IF;
			IF NOT pg_has_role('`+nodeRole+`', 'MEMBER') THEN
				GRANT `+nodeRole+` TO CURRENT_USER;
			END IF;
		END $$`)
		return err
	})
}

// nodeURL is the URL of the database for the role of nodes.
func (s *server) nodeURL() string {
	u, err := url.Parse(s.url)
	if err != nil {
		return s.url
	}
	u.User = url.UserPassword(nodeRole, nodeRole)
	return u.String()
}

func onConn(ctx context.Context, url string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return do(conn)
}

func (s *server) stop(ctx context.Context) error {
	if s.embedded == nil {
		return nil
	}
	return errors.Join(s.embedded.Stop(ctx), s.lock.Close())
}
