"""The output of commands: tables, sheets, figures, and text of users made safe for a terminal."""
