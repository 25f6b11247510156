# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
"""A manual page of what a program says with --help, and of its document."""

import re

from manuals import markdown, roff

_PROGRAM = re.compile(r'\b(rh-[a-z]+)\b')
# Options that this many commands of a program have in common are described once.
_SHARED = 3
# Rows of tables of options say what the help says; with another first column they say more.
_OPTION_TABLES = ('option',)


def title_line(name, section, date, version):
    # On a terminal a long option or a path leaves too few words to fill a line to its end with. AD is
    # what groff 1.23 goes back to behind each tag.
    return (f'.TH {name.upper()} {section} "{date}" "Rockhopper {version}" '
            f'"{"User Commands" if section == 1 else "Rockhopper"}"\n.if n .ad l\n.if n .ds AD l')


def section_of(blocks, title):
    """The blocks of the section of this title, and the level of its heading."""
    for at, block in enumerate(blocks):
        if block.kind == 'heading' and markdown.plain(block.text) == title:
            end = next((i for i, other in enumerate(blocks[at + 1:], at + 1)
                        if other.kind == 'heading' and other.level <= block.level), len(blocks))
            return blocks[at + 1:end], block.level
    raise ValueError(f'no section {title!r}')


def _definition(head, text):
    return ['.TP', roff.line(head), *roff.filled(text)]


def _table(block):
    """A table as a list: its first column is what each entry is called by, the longest of the others
    what is said of it; further columns come behind, in brackets."""
    head, *rows = block.rows
    widths = [sum(len(row[column]) for row in rows if column < len(row))
              for column in range(len(head))]
    main = max(range(1, len(head)), key=lambda column: widths[column])
    lines = []
    for row in rows:
        row = row + [''] * (len(head) - len(row))
        if not any(row[1:]):  # the title of a group of rows, or one of which nothing is said
            lines += ['.PP', roff.line(markdown.inline(row[0]))]
            continue
        text = markdown.inline(row[main])
        more = [f'{markdown.inline(head[column])}: {markdown.inline(row[column])}'
                if head[column] else markdown.inline(row[column])
                for column in range(1, len(head)) if column != main and row[column]]
        if more:
            text = f'{text} ({"; ".join(more)})'
        lines += _definition(markdown.inline(row[0]), text)
    return lines


def _names(cell):
    return {name for code in re.findall(r'`([^`]*)`', cell)
            for name in re.findall(r'(?:^|[\s,;])(-{1,2}[A-Za-z][\w-]*)', code)}


def without_options(block, known):
    """A table of options without the rows that --help has; None if no row is left."""
    head, *rows = block.rows
    if head[0] not in _OPTION_TABLES:
        return block
    left = [row for row in rows if not _names(row[0]) or not _names(row[0]) <= known]
    return markdown.Block('table', rows=[head, *left]) if left else None


def _commands_in(text):
    """The command lines of an example, without what is said of them."""
    return {re.split(r'\s{2,}|\s#', row.strip())[0] for row in text.splitlines()
            if row.strip().startswith('rh-')}


class Document:
    """Sections of a manual page made of a document. `known` are the options that --help tells of,
    `examples` its examples: neither is told twice."""

    def __init__(self, blocks, level, known, examples=''):
        self.exit_status = []
        self.has_summary = bool(blocks) and blocks[0].kind == 'paragraph'
        self.introduction = []
        self.sections = []
        target = self.introduction
        for at, block in enumerate(blocks):
            if block.kind == 'heading' and block.level == level + 1:
                target = []
                self.sections.append((markdown.plain(block.text), target))
            elif block.kind == 'heading':
                target += roff.subsection(markdown.plain(block.text))
            elif block.kind == 'table':
                if (rest := without_options(block, known)) is not None:
                    target += _table(rest)
            elif (block.kind == 'code' and target is self.introduction
                  and _commands_in(block.text) and _commands_in(block.text) <= _commands_in(examples)):
                continue
            elif block.kind == 'code':
                target += roff.code(block.text)
            elif block.kind == 'item':
                target += ['.IP \\(bu 2', *roff.filled(markdown.inline(block.text))]
            elif re.match(r'Exit status: ', block.text):
                text = block.text.removeprefix('Exit status: ')
                self.exit_status = ['.PP', *roff.filled(markdown.inline(text))]
            else:
                text = block.text
                following = blocks[at + 1] if at + 1 < len(blocks) else None
                if (text.endswith(':') and following is not None and following.kind == 'table'
                        and without_options(following, known) is None):
                    text = text[:-1] + ' (see OPTIONS).'
                target += ['.PP', *roff.filled(markdown.inline(text))]


def _marked(text):
    """Text of --help: what looks like an option or one of its values is set off."""
    return re.sub(r'(?<![\w-])(--?[a-z][\w-]*)', lambda found: f'\\fB{found[1]}\\fR',
                  roff.escape(text)).replace('-', '\\-')


def _entry(entry):
    names = ', '.join(roff.bold(name) for name in entry.names)
    argument = f' {roff.italic(entry.argument)}' if entry.argument else ''
    return _definition(names + argument, _marked(entry.text) or roff.escape(entry.head))


def _groups(groups):
    lines = []
    for title, entries in groups.items():
        if len(groups) > 1:
            lines += roff.subsection(title)
        for entry in entries:
            lines += _entry(entry)
    return lines


def _usage(name, usage):
    words = usage.replace('[options]', '[\\fIoptions\\fR]')
    return [f'{roff.bold(name)} {words}'.rstrip()]


def _shared_groups(program):
    """The groups of options that several commands have with the same words."""
    found = {}
    for of_command in program.of_commands.values():
        for title, entries in of_command.groups.items():
            if title == 'Options':
                continue
            found.setdefault((title, tuple(entries)), 0)
            found[title, tuple(entries)] += 1
    return {title: list(entries) for (title, entries), count in found.items() if count >= _SHARED}


def _commands(program):
    shared = _shared_groups(program)
    lines = []
    for name, command in program.of_commands.items():
        lines += roff.subsection(f'{program.name} {name}')
        lines += [*_usage(command.name, command.usage), '.PP', *roff.filled(_marked(command.summary))]
        own, others = {}, []
        for title, entries in command.groups.items():
            if shared.get(title) == entries:
                others.append(title)
            else:
                own[title] = entries
        for entry in [*command.positionals, *(e for entries in own.values() for e in entries)]:
            if entry.names[0] != '-h':
                lines += _entry(entry)
        if others:
            names = ' and '.join(f'\\(lq{roff.escape(title)}\\(rq' for title in others)
            lines += ['.PP', f'Besides the options that OPTIONS has below {names}.']
    return lines, shared


def _examples(program):
    text = program.verbatim.get('EXAMPLES')
    return roff.code(re.sub(r'(?m)^  ', '', text)) if text else []


def _exit_status(program, document):
    if document.exit_status:
        return document.exit_status
    lines = []
    for row in program.verbatim.get('EXIT STATUS', '').splitlines():
        status, _, text = row.strip().partition(' ')
        lines += _definition(roff.bold(status), roff.escape(text.strip()))
    return lines


def _see_also(name, texts):
    found = sorted({other for text in texts for other in _PROGRAM.findall(text)} - {name})
    pages = [f'.BR {other} (1),' for other in found] + ['.BR rockhopper (7)']
    return [*pages, '.PP',
            *roff.filled('Documents that are named here, as \\fIwire.md\\fR, are in the folder '
                         '\\fIdocs\\fR of the sources. Debian has them in '
                         '\\fI/usr/share/doc/rockhopper/docs\\fR.')]


def _tidy(lines):
    """Without paragraphs that begin nothing: behind a heading or another one."""
    result = []
    for row in lines:
        if row == '.PP' and result and result[-1].startswith(('.SH', '.SS', '.PP')):
            continue
        result.append(row)
    return '\n'.join(result) + '\n'


def _sentence(summary):
    """The first sentence, for the index of manual pages."""
    first = re.sub(r' \([^()]*\)', '', re.split(r'\. (?=[A-Z])', summary)[0].rstrip('.'))
    word = first.split()[0]
    return first[0].lower() + first[1:] if word[1:].islower() or len(word) == 1 else first


def page_of_program(program, blocks, level, date, version, programs):
    """The page of a program in section 1."""
    known = {name for help_text in [program, *program.of_commands.values()]
             for entry in help_text.options for name in entry.names}
    document = Document(blocks, level, known, program.verbatim.get('EXAMPLES', ''))
    lines = [title_line(program.name, 1, date, version), *roff.section('Name'),
             f'{roff.literal(program.name)} \\- {roff.escape(_sentence(program.summary))}',
             *roff.section('Synopsis'), *_usage(program.name, program.usage)]
    eal = program.verbatim.get('EAL ARGUMENTS')
    if eal:
        lines += ['.br', *_usage(program.name, f'[\\fIEAL arguments\\fR] \\-\\- {program.usage}')]
    lines += roff.section('Description')
    if not document.has_summary:
        lines += roff.filled(_marked(program.summary))
    lines += document.introduction
    shared = {}
    if program.of_commands:
        commands, shared = _commands(program)
        lines += [*roff.section('Commands'), *commands]
    lines += roff.section('Options')
    for entry in program.positionals:
        lines += _entry(entry)
    lines += _groups({**program.groups, **shared})
    for title, body in document.sections:
        if body:
            lines += [*roff.section(title), *body]
    if eal:
        text = ' '.join(row.strip() for row in eal.splitlines()[1:])
        lines += [*roff.section('EAL arguments'), *roff.filled(_marked(text))]
    lines += [*roff.section('Exit status'), *_exit_status(program, document)]
    if examples := _examples(program):
        lines += [*roff.section('Examples'), *examples]
    mentioned = [text for text in _PROGRAM.findall('\n'.join(lines).replace('\\-', '-'))
                 if text in programs]
    lines += [*roff.section('See also'), *_see_also(program.name, mentioned)]
    return _tidy(lines)


def overview(blocks, summary, date, version, programs):
    """rockhopper(7): what all programs share, from docs/programs.md."""
    end = next(i for i, block in enumerate(blocks)
               if block.kind == 'heading' and block.text in programs)
    start = 1 if blocks[0].kind == 'heading' and blocks[0].level == 1 else 0
    document = Document(blocks[start:end], 1, frozenset())
    lines = [title_line('rockhopper', 7, date, version), *roff.section('Name'),
             f'rockhopper \\- {roff.escape(summary)}', *roff.section('Description'),
             *document.introduction]
    for title, body in document.sections:
        lines += [*roff.section(title), *body]
    pages = [f'.BR {name} (1),' for name in sorted(programs)]
    pages[-1] = pages[-1].rstrip(',')
    return _tidy([*lines, *roff.section('Exit status'), *document.exit_status,
                  *roff.section('See also'), *pages])
