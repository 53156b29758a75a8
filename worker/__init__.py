"""Every process under the supervisor. Imports mailbox and roles, never supervisor."""
