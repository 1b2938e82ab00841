package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// statements keeps every statement prepared that runs more than once. None of
// them scans a table: a test asks SQLite for each one's plan.
type statements struct {
	db   *sql.DB
	mu   sync.Mutex
	made map[string]*sql.Stmt
}

func (s *statements) get(ctx context.Context, text string) (*sql.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if made, ok := s.made[text]; ok {
		return made, nil
	}
	made, err := s.db.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	if s.made == nil {
		s.made = map[string]*sql.Stmt{}
	}
	s.made[text] = made
	return made, nil
}

func (s *statements) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	made, err := s.get(ctx, text)
	if err != nil {
		return nil, err
	}
	return made.QueryContext(ctx, args...)
}

// row scans the only row; sql.ErrNoRows without one.
func (s *statements) row(ctx context.Context, text string, arg any, into ...any) error {
	var args []any
	if arg != nil {
		args = []any{arg}
	}
	made, err := s.get(ctx, text)
	if err != nil {
		return err
	}
	return made.QueryRowContext(ctx, args...).Scan(into...)
}

func (s *statements) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, made := range s.made {
		errs = append(errs, made.Close())
	}
	s.made = nil
	return errors.Join(errs...)
}
