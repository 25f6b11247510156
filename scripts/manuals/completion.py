# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""Completion of a program's arguments in bash, zsh and fish."""

_FILES = ('FILE', 'PATH', 'DIR', 'FOLDER', 'SOCKET', 'PREFIX', 'LOG')
_DESCRIPTION = 60


def _takes_file(argument):
    return any(word in argument.upper().split('|') for word in _FILES)


def _commands(program):
    """{command: its Help}; a program without commands is one by itself, named ""."""
    return program.of_commands or {'': program}


def _function(name):
    return '_' + name.replace('-', '_')


def _short(text):
    """The beginning of what an option does: up to the first stop, cut at a word."""
    text = text.split('. ')[0].split('; ')[0].split(' (')[0].rstrip('.')
    if len(text) > _DESCRIPTION:
        text = text[:_DESCRIPTION].rsplit(' ', 1)[0] + '...'
    return text


def _quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def bash(program):
    """A file for bash-completion; it needs none of that package's functions."""
    function = _function(program.name)
    lines = [f'# Completion of {program.name} in bash, made from what it says with --help.',
             f'{function}() {{',
             '  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}',
             '  # --option=value is three words.',
             '  if [[ $current == = ]]; then',
             '    current=',
             '  elif [[ $previous == = ]]; then',
             '    previous=${COMP_WORDS[COMP_CWORD - 2]}',
             '  fi',
             '  COMPREPLY=()']
    commands = _commands(program)
    if program.of_commands:
        lines += ['  local command= word',
                  '  for word in "${COMP_WORDS[@]:1:COMP_CWORD - 1}"; do',
                  f'    case $word in {"|".join(commands)}) command=$word; break ;; esac',
                  '  done',
                  '  case $command in',
                  f"    '') COMPREPLY=($(compgen -W {_quoted(' '.join([*commands, *_own(program)]))} "
                  '-- "$current")) ;;']
    else:
        lines.append("  case '' in")
    for command, of_command in commands.items():
        lines += [f'    {command or _quoted("")})', '      case $previous in']
        anything = [name for option in of_command.options for name in option.names
                    if option.argument and not option.values and not _takes_file(option.argument)]
        files = [name for option in of_command.options for name in option.names
                 if option.argument and not option.values and _takes_file(option.argument)]
        for option in of_command.options:
            if option.argument and option.values:
                lines.append(f'        {"|".join(option.names)}) COMPREPLY=($(compgen -W '
                             f'{_quoted(" ".join(option.values))} -- "$current")); return ;;')
        if files:
            lines.append(f'        {"|".join(files)}) compopt -o default; return ;;')
        if anything:
            lines.append(f'        {"|".join(anything)}) return ;;')
        lines += ['      esac',
                  '      if [[ $current == -* ]]; then',
                  f'        COMPREPLY=($(compgen -W {_quoted(" ".join(_own(of_command)))} '
                  '-- "$current"))',
                  '      else',
                  '        compopt -o default',
                  '      fi ;;']
    return '\n'.join([*lines, '  esac', '}', f'complete -F {function} {program.name}', ''])


def _own(help_text):
    return [name for option in help_text.options for name in option.names]


def _zsh_text(text):
    for mark in '\\[]:':
        text = text.replace(mark, '\\' + mark)
    return text.replace("'", "'\\''")


def _zsh_arguments(help_text):
    lines = []
    for option in help_text.options:
        names = option.names
        what = f'[{_zsh_text(_short(option.text))}]'
        if option.argument:
            action = (f'({" ".join(option.values)})' if option.values else
                      '_files' if _takes_file(option.argument) else ' ')
            what += f':{_zsh_text(option.argument)}:{action}'
        if len(names) > 1:
            lines.append(f"'*'{{{','.join(names)}}}'{what}'")
        else:
            lines.append(f"'*{names[0]}{what}'")
    return [*lines, "'*:argument:_default'"]


def zsh(program):
    """A function for zsh's compsys."""
    lines = [f'#compdef {program.name}',
             f'# Completion of {program.name} in zsh, made from what it says with --help.']
    if not program.of_commands:
        arguments = ' \\\n  '.join(_zsh_arguments(program))
        return '\n'.join([*lines, f'_arguments -s -S \\\n  {arguments}', ''])
    choices = ' '.join(f'{name}\\:"{_zsh_text(_short(entry.summary)).replace(chr(34), "")}"'
                       for name, entry in program.of_commands.items())
    lines += ['local curcontext=$curcontext state line',
              "_arguments -C '(-)'{-h,--help}'[print help]' '--version[print the version]' \\",
              f"  '1:command:(({choices}))' '*::argument:->arguments' && return",
              '[[ $state == arguments ]] || return',
              'case $line[1] in']
    for name, of_command in program.of_commands.items():
        arguments = ' \\\n      '.join(_zsh_arguments(of_command))
        lines += [f'  {name})', f'    _arguments -s -S \\\n      {arguments} ;;']
    return '\n'.join([*lines, 'esac', ''])


def _fish_text(text):
    return "'" + text.replace('\\', '\\\\').replace("'", "\\'") + "'"


def fish(program):
    """Commands for fish."""
    begin = f'complete -c {program.name}'
    lines = [f'# Completion of {program.name} in fish, made from what it says with --help.']
    seen = ''
    if program.of_commands:
        lines.append(f'{begin} -f -n __fish_use_subcommand')
        lines += [f'{begin} -n __fish_use_subcommand -a {name} -d {_fish_text(_short(entry.summary))}'
                  for name, entry in program.of_commands.items()]
    for command, of_command in _commands(program).items():
        if command:
            seen = f" -n '__fish_seen_subcommand_from {command}'"
        for option in of_command.options:
            names = ''.join(f' -l {name[2:]}' if name.startswith('--') else f' -s {name[1:]}'
                            for name in option.names)
            argument = ''
            if option.argument:
                argument = f" -x -a '{' '.join(option.values)}'" if option.values else (
                    ' -r' if _takes_file(option.argument) else ' -x')
            lines.append(f'{begin}{seen}{names}{argument} -d {_fish_text(_short(option.text))}')
    return '\n'.join([*lines, ''])
